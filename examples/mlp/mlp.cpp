// A first network: handwritten digits, 8 × 8 pixels, told apart by two layers.
//
//   ./dev build && ./build/examples/mlp/mlp
#include <weft/weft.h>

using namespace weft;

// A module is a struct. Its members register themselves in the order in which they stand; forward says what it computes.
struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1{this, "fc1", {.in = 64, .out = 128}};
  nn::Linear fc2{this, "fc2", {.in = 128, .out = 10}};
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

// The share of images whose most likely digit is the right one.
double accuracy(Mlp& net) {
  NoGrad guard;
  double right = 0, all = 0;
  for (auto [x, y] : data::DataLoader(data::digits("test"), {.batch_size = 256})) {
    right += sum(argmax(net(x), 1) == y).item();
    all += static_cast<double>(y.numel());
  }
  return right / all;
}

int main() try {
  manual_seed(1);
  Mlp net;
  auto opt = optim::AdamW(net.named_parameters(), {.lr = 1e-3});
  data::DataLoader loader(data::digits("train"), {.batch_size = 64, .shuffle = true});
  for (int epoch = 1; epoch <= 20; ++epoch) {
    double total = 0;
    for (auto [x, y] : loader) {
      Tensor loss = nn::cross_entropy(net(x), y);
      loss.backward();  // gradients of all parameters
      opt.step();       // parameters move against them
      opt.zero_grad();
      total += loss.item();
    }
    if (epoch % 5 == 0)
      fmt::print("epoch {:2}  loss {:.3f}  accuracy {:.1f}%\n", epoch, total / static_cast<double>(loader.size()),
                 100 * accuracy(net));
  }
  save_safetensors(net.state_dict(), "mlp.safetensors");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
