// Training: the loop of a language model, the same for one rank and for many.
//
// Every update sees `batch_size` samples, whatever the number of ranks: each rank takes its part of them, and DDP averages
// the gradients. So the losses do not depend on how many ranks there are.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "settings.h"

using namespace weft;
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Tensor flat_loss(const Tensor& logits, const Tensor& target, LossReduction reduction) {
  return nn::cross_entropy(logits.flatten(0, 1), target.flatten(), {.reduction = reduction});
}

// Weights of matrices decay, biases and norms do not.
optim::AdamW make_optimizer(nn::models::GPT2& gpt, const TrainSettings& s) {
  optim::NamedParameters matrices, others;
  for (auto& named : gpt.named_parameters()) (named.second.dim() >= 2 ? matrices : others).push_back(named);
  const optim::AdamWOptions options = {.lr = s.lr, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = s.weight_decay};
  optim::AdamWOptions plain = options;
  plain.weight_decay = 0;
  return optim::AdamW(std::vector<optim::AdamW::Group>{{matrices, options}, {others, plain}});
}

// Mean loss a character over all of `tokens`; every rank takes a part.
double evaluate(const Accelerator& accelerator, nn::models::GPT2& gpt, const Tensor& tokens, int64_t context) {
  NoGrad guard;
  gpt.eval();
  const data::TextDataset dataset(tokens, context);
  const auto [begin, end] = data::even_part(dataset.size(), accelerator.process_index(), accelerator.num_processes());
  double total = 0;
  for (int64_t first = begin; first < end; first += 32) {
    std::vector<int64_t> indices;
    for (int64_t i = first; i < std::min(first + 32, end); ++i) indices.push_back(i);
    const data::Batch batch =
        dataset.get_batch(indices).map_tensors([&](const Tensor& t) { return t.to(accelerator.device()); });
    total += flat_loss(gpt(batch["input"]), batch["target"], LossReduction::sum).item();
  }
  gpt.train();
  const Tensor sum = accelerator.reduce(full({}, total, f64));
  return sum.item() / static_cast<double>(dataset.size() * context);
}

// Computing in fewer bits, with the weights kept in f32 (Micikevicius et al. 2018, arXiv:1710.03740): an update is
// often too small to change a bf16 weight. `model` is what computes; `master` is what the optimizer sees.
class ReducedPrecision {
 public:
  ReducedPrecision(nn::models::GPT2& master, DType dtype) : model(master.config), master_(master.parameters()) {
    model.to(dtype);
    model.to(master_[0].device());
    copies_ = model.parameters();
  }
  // Before a forward: the weights of the moment, rounded.
  void take_weights() {
    const NoGrad guard;
    for (size_t i = 0; i < copies_.size(); ++i) copies_[i].copy_(master_[i].detach());
  }
  // After a backward.
  void give_gradients() {
    for (size_t i = 0; i < copies_.size(); ++i) {
      master_[i].set_grad(copies_[i].grad().to(f32));
      copies_[i].set_grad({});
    }
  }

  nn::models::GPT2 model;

 private:
  std::vector<Tensor> master_, copies_;
};

// Before the training, so that its result is not lost at the end.
void check_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "gpt", "cannot make the folder {}: {}", folder.string(), error.message());
  AtomicFile(folder / "config.json");  // its temporary file comes and goes
}

// The loss of every step, one a line; rank 0 writes it.
class LossLog {
 public:
  LossLog(const std::filesystem::path& path, bool here) {
    if (path.empty() || !here) return;
    file_ = std::fopen(path.c_str(), "w");
    if (!file_) fail(ErrorCode::io, "gpt", "cannot write {}: {}", path.string(), std::strerror(errno));
  }
  LossLog(const LossLog&) = delete;
  LossLog& operator=(const LossLog&) = delete;
  ~LossLog() {
    if (file_) std::fclose(file_);
  }
  void write(double loss) {
    if (file_) fmt::print(file_, "{:.9g}\n", loss);
    if (file_) std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace

void train(const TrainSettings& s, ProcessGroup group) {
  WEFT_CHECK(s.width % s.heads == 0, "gpt", "--width {} is not a multiple of --heads {}", s.width, s.heads);
  Accelerator accelerator({.device = device_named(s.device, "gpt"),
                           .dataloader_config = {.split_batches = true, .even_batches = false, .allow_uneven = true},
                           .group = std::move(group)});
  WEFT_CHECK(s.batch_size >= accelerator.num_processes(), "gpt", "--batch-size {} gives some of the {} ranks nothing",
             s.batch_size, accelerator.num_processes());
  WEFT_CHECK(s.dtype == "f32" || accelerator.num_processes() == 1, "gpt",
             "--dtype {} is for one rank: the gradients that are sent between ranks are those of f32 weights", s.dtype);
  LossLog loss_log(s.loss_log, accelerator.is_main_process());
  if (accelerator.is_main_process()) check_writable(s.out);

  const data::TextCorpus corpus = data::load_text(s.data);
  set_seed(s.seed);
  const nn::models::GPT2Config config = {.vocab_size = corpus.vocabulary.size(),
                                         .n_positions = s.context,
                                         .n_embd = s.width,
                                         .n_layer = s.layers,
                                         .n_head = s.heads};
  nn::models::GPT2 gpt(config);
  optim::AdamW adam = make_optimizer(gpt, s);
  optim::LambdaLR cosine = optim::warmup_cosine(
      adam, {.warmup_steps = std::min(s.warmup_steps, s.decay_steps), .total_steps = s.decay_steps, .min_factor = 0.1});
  // Sample i starts at a place drawn from (seed, i): no rank needs to know what the others draw, and there is no end.
  auto samples = std::make_shared<data::TextDataset>(
      corpus.train, data::TextOptions{.context = s.context, .random = true, .seed = s.seed, .size = int64_t{1} << 40});
  data::DataLoader whole(samples, {.batch_size = s.batch_size, .num_workers = 1});
  auto [model, optimizer, loader, schedule] = accelerator.prepare(gpt, adam, whole, cosine);

  int64_t step = 0;
  if (!s.resume.empty()) {
    accelerator.load_state(s.resume / "state");
    step = cosine.last_epoch();
    WEFT_CHECK(step <= s.steps, "gpt", "{} has taken {} steps already, more than --steps {}", s.resume.string(), step,
               s.steps);
  }
  std::optional<ReducedPrecision> reduced;
  if (s.dtype == "bf16") reduced.emplace(gpt, bf16);
  const auto forward = [&reduced, &model = model](const Tensor& x) {
    return reduced ? reduced->model(x).to(f32) : model(x);
  };
  const auto save = [&] {
    accelerator.save_state(s.out / "state");
    accelerator.save_model(gpt, s.out);
    if (accelerator.is_main_process()) save_config(s.out, config, corpus.vocabulary);
  };

  const int64_t tokens_a_step = s.batch_size * s.context;
  const double flops =
      transformer_step_flops(s.layers, s.width, 4 * s.width, config.vocab_size, s.context, tokens_a_step);
  accelerator.wait_for_everyone();
  // The limit is the CPU's; on a device the rate stands alone.
  const bool on_cpu = accelerator.device() == Device::cpu();
  const double limit = on_cpu ? accelerator.reduce(full({}, gemm_limit_flops(), f64)).item() : 0;
  int64_t parameters = 0;
  for (const Tensor& p : gpt.parameters()) parameters += p.numel();
  accelerator.print("{} parameters, {} characters to train on, {} ranks of {} threads, {}", parameters,
                    corpus.train.numel(), accelerator.num_processes(), num_threads(),
                    on_cpu ? fmt::format("GEMM limit {:.0f} GFLOP/s", limit / 1e9)
                           : fmt::format("{} on {}", s.dtype, name(accelerator.device())));

  Progress progress({.label = "step", .total = s.steps, .enabled = accelerator.is_main_process()});
  const auto start = Clock::now();
  const int64_t first = step;
  double rate = 0;
  const auto speed = [&] {
    if (!on_cpu) return fmt::format("{:.1f}k tok/s", rate / 1e3);
    return fmt::format("{:.1f}k tok/s  MFU {:.0f}%", rate / 1e3,
                       100 * rate / static_cast<double>(tokens_a_step) * flops / limit);
  };
  if (step < s.steps) {
    for (auto [x, y] : loader) {
      auto guard = accelerator.accumulate(model);
      // Sum over this rank's tokens, divided so that DDP's mean over ranks is the mean over all tokens.
      const double share = static_cast<double>(accelerator.num_processes()) / static_cast<double>(tokens_a_step);
      if (reduced) reduced->take_weights();
      const Tensor loss = flat_loss(forward(x), y, LossReduction::sum) * share;
      accelerator.backward(loss);
      if (reduced) reduced->give_gradients();
      accelerator.clip_grad_norm_(model.parameters(), s.clip);
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      const double mean = accelerator.reduce(loss, TreeReduce::mean).item();
      loss_log.write(mean);
      ++step;
      rate = static_cast<double>((step - first) * tokens_a_step) / seconds_since(start);
      progress.update(step, fmt::format("loss {:.3f}  {}", mean, speed()));
      if (s.save_every > 0 && step % s.save_every == 0 && step < s.steps) save();
      if (step >= s.steps) break;
    }
  }
  progress.finish();
  const double seconds = seconds_since(start);
  save();
  const double validation = evaluate(accelerator, gpt, corpus.validation, s.context);
  if (step > first) accelerator.print("trained {} steps in {}: {}", step - first, format_duration(seconds), speed());
  accelerator.print("validation loss {:.3f} nats/char; saved in {}", validation, s.out.string());
  if (accelerator.is_main_process() && corpus.vocabulary.contains('\n')) {
    const std::string text = continue_text(gpt, corpus.vocabulary, "\n", 300, 0.8, s.seed);
    fmt::print("----\n{}\n----\n", data::latin1_to_utf8(text));
  }
  accelerator.wait_for_everyone();
}
