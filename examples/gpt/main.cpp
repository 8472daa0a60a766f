// A character GPT: trained on one process or many, and made to write.
//
//   ./build/weft launch -n 2 -- ./build/examples/gpt/gpt train
//   ./build/examples/gpt/gpt generate --prompt "ROMEO."
//
// Read train.cpp first.
#include <CLI/CLI.hpp>

#include "settings.h"

int main(int argc, char** argv) {
  CLI::App app{"A character GPT on Shakespeare's works", "gpt"};
  app.require_subcommand(1);

  TrainSettings t;
  CLI::App* train_command = app.add_subcommand("train", "train, report the validation loss, save, and write a little");
  train_command->add_option("--data", t.data, "folder of *_gut.txt files")->capture_default_str();
  train_command->add_option("--out", t.out, "folder for the model and the state of the training")
      ->capture_default_str();
  train_command->add_option("--resume", t.resume, "go on from the folder of an earlier run");
  train_command->add_option("--loss-log", t.loss_log, "write the loss of every step here, one a line");
  train_command->add_option("--device", t.device, "cpu, cuda, or simt: the CUDA kernels, run on the CPU")
      ->capture_default_str();
  train_command->add_option("--dtype", t.dtype, "what the model computes in")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  const auto count = CLI::Range(int64_t{0}, int64_t{1} << 40);
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 30);
  train_command->add_option("--steps", t.steps, "updates in all")->check(count)->capture_default_str();
  train_command->add_option("--batch-size", t.batch_size, "samples of an update, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  train_command->add_option("--context", t.context, "characters of a sample")->check(size)->capture_default_str();
  train_command->add_option("--layers", t.layers)->check(size)->capture_default_str();
  train_command->add_option("--width", t.width)->check(size)->capture_default_str();
  train_command->add_option("--heads", t.heads)->check(size)->capture_default_str();
  train_command->add_option("--lr", t.lr, "highest learning rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train_command->add_option("--warmup-steps", t.warmup_steps)->check(count)->capture_default_str();
  train_command->add_option("--decay-steps", t.decay_steps, "the learning rate falls to a tenth until here")
      ->check(size)
      ->capture_default_str();
  train_command->add_option("--weight-decay", t.weight_decay)->check(CLI::NonNegativeNumber)->capture_default_str();
  train_command->add_option("--clip", t.clip, "largest norm of the gradient")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train_command->add_option("--save-every", t.save_every, "steps between saves; 0: only at the end")
      ->check(count)
      ->capture_default_str();
  train_command->add_option("--seed", t.seed)->capture_default_str();

  GenerateSettings g;
  CLI::App* generate_command = app.add_subcommand("generate", "write text with a trained model");
  generate_command->add_option("--from", g.from, "the folder that train wrote")->capture_default_str();
  generate_command->add_option("--prompt", g.prompt, "what the text begins with");
  generate_command->add_option("--characters", g.characters)->check(count)->capture_default_str();
  generate_command->add_option("--temperature", g.temperature, "0: always the most likely character")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate_command->add_option("--seed", g.seed)->capture_default_str();

  try {
    app.parse(argc, argv);
    if (*train_command) train(t);
    if (*generate_command) generate(g);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    if (app.get_subcommands().empty() && argc > 1)
      fmt::print(stderr, "gpt: \"{}\" is neither train nor generate; see gpt --help\n", argv[1]);
    else
      fmt::print(stderr, "gpt: {}; see gpt --help\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
