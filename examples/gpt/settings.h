// What a run can be told, and what is kept of it beside the weights.
#pragma once
#include <weft/weft.h>

#include <string>

struct TrainSettings {
  std::filesystem::path data = weft::data::data_directory() / "shakespeare";
  std::filesystem::path out = "build/demo";
  std::filesystem::path resume;
  std::filesystem::path loss_log;
  std::string device = "cpu";  // cpu, cuda or simt
  std::string dtype = "f32";   // bf16: the model computes in it, the optimizer keeps f32 weights
  int64_t steps = 900;
  int64_t batch_size = 16;  // of all ranks together
  int64_t context = 128;
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t warmup_steps = 100;
  int64_t decay_steps = 900;  // the learning rate falls until here; apart from `steps`, so that a resumed run agrees
  int64_t save_every = 0;     // 0: only at the end
  double lr = 2e-3;
  double weight_decay = 0.1;
  double clip = 1.0;
  uint64_t seed = 1;
};

struct GenerateSettings {
  std::filesystem::path from = "build/demo";
  std::string prompt = "\n";
  int64_t characters = 300;
  double temperature = 0.8;
  uint64_t seed = 1;
};

// A trained model on disk: model.safetensors in Hugging Face's names, and config.json with its sizes and the characters.
void save_config(const std::filesystem::path& folder, const weft::nn::models::GPT2Config& config,
                 const weft::data::Vocabulary& vocabulary);
weft::nn::models::GPT2Config load_config(const std::filesystem::path& folder, weft::data::Vocabulary& vocabulary);

// Every rank calls it. `group`: the ranks that train together; undefined: those that the launcher started.
void train(const TrainSettings& settings, weft::ProcessGroup group = {});
void generate(const GenerateSettings& settings);
// `characters` more characters behind the prompt, latin-1.
std::string continue_text(weft::nn::models::GPT2& gpt, const weft::data::Vocabulary& vocabulary,
                          const std::string& prompt, int64_t characters, double temperature, uint64_t seed);
