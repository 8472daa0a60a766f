// The same digits with convolutions, and the loop of the Accelerator: it runs alone and on many processes.
//
//   ./build/examples/cnn/cnn
//   ./build/weft launch -n 2 -- ./build/examples/cnn/cnn
#include <weft/weft.h>

using namespace weft;

struct Cnn : nn::Module<Cnn> {
  nn::Conv2d conv1{this, "conv1", {.in = 1, .out = 16, .kernel = {3, 3}, .padding = {1, 1}}};
  nn::Conv2d conv2{this, "conv2", {.in = 16, .out = 32, .kernel = {3, 3}, .padding = {1, 1}}};
  nn::Linear fc{this, "fc", {.in = 32 * 2 * 2, .out = 10}};
  Tensor forward(const Tensor& x) {         // [N, 1, 8, 8]
    Tensor h = max_pool2d(relu(conv1(x)));  // [N, 16, 4, 4]
    h = max_pool2d(relu(conv2(h)));         // [N, 32, 2, 2]
    return fc(h.flatten(1));
  }
};

int main() try {
  Accelerator accelerator;
  set_seed(1);
  Cnn net;
  optim::AdamW adam(net.named_parameters(), {.lr = 2e-3});
  data::DataLoader train(data::digits("train", {.image = true}), {.batch_size = 32, .shuffle = true});
  data::DataLoader test(data::digits("test", {.image = true}), {.batch_size = 128});
  auto [model, optimizer, loader, tests] = accelerator.prepare(net, adam, train, test);

  for (int epoch = 1; epoch <= 5; ++epoch) {
    for (auto [x, y] : loader) {
      auto step = accelerator.accumulate(model);
      accelerator.backward(nn::cross_entropy(model(x), y));
      optimizer.step();
      optimizer.zero_grad();
    }
    NoGrad guard;
    double right = 0, all = 0;
    for (auto [x, y] : tests) {
      // What was repeated to fill the last batch is dropped again: each image counts once.
      const Tensor hits = accelerator.gather_for_metrics((argmax(model(x), 1) == y).to(f32));
      right += sum(hits).item();
      all += static_cast<double>(hits.numel());
    }
    accelerator.print("epoch {}  accuracy {:.1f}% of {:.0f} images", epoch, 100 * right / all, all);
  }
  accelerator.save_model(model, "build/cnn-out");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
