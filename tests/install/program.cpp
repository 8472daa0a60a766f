// A user's program: it knows one header and one library, and nothing of this tree.
#include <weft/weft.h>

int main() {
  using namespace weft;
  Tensor x = full({2, 3}, 1.5, {.requires_grad = true});
  Tensor loss = sum(x * x);
  loss.backward();
  fmt::print("{}\n", x.grad());
  return loss.item<float>() == 13.5f && x.grad().sum().item<float>() == 18.0f ? 0 : 1;
}
