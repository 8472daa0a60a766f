// Sampling: one character at a time, from the model's probabilities for the next one.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "settings.h"

using namespace weft;

void save_config(const std::filesystem::path& folder, const nn::models::GPT2Config& config,
                 const data::Vocabulary& vocabulary) {
  const nlohmann::ordered_json json = {{"model_type", "gpt2"},
                                       {"vocab_size", config.vocab_size},
                                       {"n_positions", config.n_positions},
                                       {"n_embd", config.n_embd},
                                       {"n_layer", config.n_layer},
                                       {"n_head", config.n_head},
                                       {"activation_function", "gelu_new"},
                                       {"characters", data::latin1_to_utf8(vocabulary.characters())}};
  write_file(folder / "config.json", json.dump(2) + "\n");
}

nn::models::GPT2Config load_config(const std::filesystem::path& folder, data::Vocabulary& vocabulary) {
  const std::filesystem::path path = folder / "config.json";
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path));
    vocabulary = data::Vocabulary(data::utf8_to_latin1(json.at("characters").get<std::string>()));
    nn::models::GPT2Config config;
    config.vocab_size = json.at("vocab_size").get<int64_t>();
    config.n_positions = json.at("n_positions").get<int64_t>();
    config.n_embd = json.at("n_embd").get<int64_t>();
    config.n_layer = json.at("n_layer").get<int64_t>();
    config.n_head = json.at("n_head").get<int64_t>();
    return config;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::corrupt_data, "generate", "{} is not a config of this program: {}", path.string(), error.what());
  }
}

std::string continue_text(nn::models::GPT2& gpt, const data::Vocabulary& vocabulary, const std::string& prompt,
                          int64_t characters, double temperature, uint64_t seed) {
  NoGrad guard;
  gpt.eval();
  Generator generator(seed);
  const Device device = gpt.transformer.wte.weight.device();
  std::string text = prompt;
  for (int64_t i = 0; i < characters; ++i) {
    // The model sees as much of the text as it has positions for.
    const auto visible = std::min<size_t>(text.size(), static_cast<size_t>(gpt.config.n_positions));
    const Tensor tokens = vocabulary.encode(text.substr(text.size() - visible)).to(i64).unsqueeze(0).to(device);
    const Tensor logits = gpt(tokens).select(0, 0).select(0, -1);
    int64_t next = 0;
    if (temperature == 0) {
      next = argmax(logits).item<int64_t>();
    } else {
      const std::vector<double> p = softmax(logits / temperature, -1).to_vector();
      double rest = generator.uniform_f64();
      while (next + 1 < static_cast<int64_t>(p.size()) && rest >= p[static_cast<size_t>(next)])
        rest -= p[static_cast<size_t>(next++)];
    }
    text += vocabulary.characters()[static_cast<size_t>(next)];
  }
  gpt.train();
  return text.substr(prompt.size());
}

void generate(const GenerateSettings& settings) {
  WEFT_CHECK(!settings.prompt.empty(), "generate", "the prompt must have at least one character");
  WEFT_CHECK(std::isfinite(settings.temperature), "generate", "the temperature must be a number, got {}",
             settings.temperature);
  data::Vocabulary vocabulary;
  nn::models::GPT2 gpt(load_config(settings.from, vocabulary));
  gpt.load_state_dict(load_safetensors(settings.from / "model.safetensors").tensors);
  const std::string prompt = data::utf8_to_latin1(settings.prompt);
  const std::string text =
      continue_text(gpt, vocabulary, prompt, settings.characters, settings.temperature, settings.seed);
  fmt::print("{}\n", data::latin1_to_utf8(prompt + text));
}
