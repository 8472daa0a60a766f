// A user's program: it knows one header and one library, and nothing of this tree.
#include <weft/weft.h>

int main() {
  weft::Tensor ones = weft::full({2, 3}, 1.0);
  return ones.numel() == 6 ? 0 : 1;
}
