// Cases of model_*: outputs, loss and gradients of whole models, and the losses of a short training run.
#include <fmt/format.h>

#include <regex>

#include "autograd/ops/ops.h"
#include "nn/layers/linear.h"
#include "nn/models/bert.h"
#include "nn/models/gpt2.h"
#include "nn/models/llama.h"
#include "nn/models/resnet.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/golden/groups.h"

namespace weft::testing {
namespace {

StateDict tensors_of(const GoldenFile& file, const Tree& names) {
  StateDict result;
  for (const auto& [name, stored] : names.as_map()) result[name] = file.tensor(stored.as_string());
  return result;
}

// Loads all parameters; a tied one is stored once.
void load(nn::ModuleBase& model, const StateDict& weights) {
  const nn::LoadReport report = model.load_state_dict(weights, /*strict=*/false);
  WEFT_CHECK(report.unexpected.empty(), "golden", "the model has no {}", fmt::join(report.unexpected, ", "));
  for (const auto& [name, parameter] : model.named_parameters())
    WEFT_CHECK(weights.contains(name), "golden", "no value for {}", name);
}

optim::AdamWOptions adamw_options(const Tree& values) {
  optim::AdamWOptions options;
  for (const auto& [key, value] : values.as_map()) {
    if (key == "lr") {
      options.lr = value.as_double();
    } else if (key == "betas") {
      options.beta1 = value[0].as_double();
      options.beta2 = value[1].as_double();
    } else if (key == "weight_decay") {
      options.weight_decay = value.as_double();
    } else if (key == "eps") {
      options.eps = value.as_double();
    } else {
      throw Skip{fmt::format("AdamW with {}", key)};
    }
  }
  return options;
}

void expect_losses(const std::vector<double>& got, const Tree& c) {
  const Tolerance tolerance{c["train_rtol"].as_double(), 0};
  WEFT_CHECK(static_cast<int64_t>(got.size()) == c["train_losses"].size(), "golden", "{} losses, expected {}",
             got.size(), c["train_losses"].size());
  for (size_t step = 0; step < got.size(); ++step)
    expect_close(got[step], golden_number(c["train_losses"][static_cast<int64_t>(step)]), tolerance,
                 fmt::format("training loss {}", step));
}

// Every parameter's gradient, and no recorded one left over.
void expect_gradients(const GoldenFile& file, const Tree& c, const nn::ModuleBase& model,
                      const std::function<std::string(const std::string&)>& recorded_name) {
  const auto parameters = model.named_parameters();
  WEFT_CHECK(static_cast<int64_t>(parameters.size()) == c["grads"].size(), "golden", "{} parameters, expected {}",
             parameters.size(), c["grads"].size());
  for (const auto& [name, parameter] : parameters)
    expect_close(parameter.grad(), file.tensor(c["grads"][recorded_name(name)].as_string()), tolerance_of(c),
                 "gradient of " + name);
}
std::string same_name(const std::string& name) { return name; }

// A model from tokens to logits: logits, loss, gradients, and a short training run with AdamW.
template <class Model>
void check_language_model(const GoldenFile& file, const Tree& c, Model& model) {
  load(model, tensors_of(file, c["weights"]));
  model.to(golden_device);
  const Tensor tokens = file.tensor(c["tokens"].as_string()).to(i64).to(golden_device);  // [steps, batch, time]
  const auto loss_of = [](const Tensor& logits, const Tensor& text) {
    const Tensor predicted = logits.slice(1, 0, -1), target = text.slice(1, 1, {});
    return cross_entropy(predicted.flatten(0, 1), target.flatten());
  };
  const Tensor logits = model(tokens[0]);
  expect_close(logits, file.tensor(c["logits"].as_string()), tolerance_of(c), "logits");
  const Tensor loss = loss_of(logits, tokens[0]);
  expect_close(loss.item(), golden_number(c["loss"]), tolerance_of(c), "loss");
  loss.backward();
  expect_gradients(file, c, model, same_name);

  optim::AdamW optimizer(model.named_parameters(), adamw_options(c["adamw"]));
  std::vector<double> losses;
  for (int64_t step = 0; step < tokens.size(0); ++step) {
    optimizer.zero_grad();
    const Tensor step_loss = loss_of(model(tokens[step]), tokens[step]);
    losses.push_back(step_loss.item());
    step_loss.backward();
    optimizer.step();
  }
  expect_losses(losses, c);
  NoGrad guard;
  expect_close(model(tokens[0]), file.tensor(c["logits_after"].as_string()), {c["train_rtol"].as_double(), 5e-3},
               "logits_after");
}

void check_gpt2(const GoldenFile& file, const Tree& c) {
  nn::models::GPT2Config config = nn::models::GPT2Config::from_json(c["params"]);
  config.dropout = 0;  // the cases have none
  nn::models::GPT2 model(config);
  check_language_model(file, c, model);
}

void check_llama(const GoldenFile& file, const Tree& c) {
  nn::models::LlamaConfig config = nn::models::LlamaConfig::from_json(c["params"]);
  config.tie_word_embeddings = !c["weights"].contains("lm_head.weight");
  nn::models::Llama model(config);
  check_language_model(file, c, model);
}

void check_bert(const GoldenFile& file, const Tree& c) {
  nn::models::BertConfig config = nn::models::BertConfig::from_json(c["params"]);
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;  // the cases have none
  config.add_pooling_layer = c["weights"].contains("pooler.dense.weight");
  nn::models::Bert model(config);
  load(model, tensors_of(file, c["weights"]));
  model.to(golden_device);
  const auto input = [&](const char* key) { return file.tensor(c[key].as_string()).to(i64).to(golden_device); };
  const Tensor mask = input("attention_mask");
  const Tensor hidden = model(input("tokens"), mask, input("token_type_ids")).first;
  expect_close(hidden, file.tensor(c["last_hidden_state"].as_string()), tolerance_of(c), "last_hidden_state");
  const Tensor embeddings = nn::models::mean_pooling(hidden, mask);
  expect_close(embeddings, file.tensor(c["embeddings"].as_string()), tolerance_of(c), "embeddings");
  const Tensor loss = sum(embeddings * file.tensor(c["target"].as_string()).to(golden_device));
  expect_close(loss.item(), golden_number(c["loss"]), tolerance_of(c), "loss");
  loss.backward();
  expect_gradients(file, c, model, same_name);
}

// The cases' network has one block a stage and shorter names.
std::string resnet_name(const std::string& recorded) {
  static const std::regex block(R"(layer(\d+)\.(.*))");
  std::smatch part;
  if (!std::regex_match(recorded, part, block)) return recorded;
  const std::string rest = part[2].str();
  return fmt::format("layer{}.0.{}", part[1].str(), rest.starts_with("down.") ? "downsample." + rest.substr(5) : rest);
}

void check_resnet(const GoldenFile& file, const Tree& c) {
  nn::models::ResNetConfig config;
  const int64_t width = c["params"]["width"].as_int();
  config.embedding_size = width;
  config.hidden_sizes = {width, 2 * width, 4 * width};
  config.depths = {1, 1, 1};
  config.num_labels = c["params"]["classes"].as_int();
  config.small_images = true;
  nn::models::ResNet model(config);
  OrderedMap<std::string> recorded_names;
  const auto translated = [&](const Tree& names) {
    StateDict state;
    for (const auto& [name, tensor] : tensors_of(file, names)) {
      state[resnet_name(name)] = tensor;
      recorded_names[resnet_name(name)] = name;
    }
    return state;
  };
  const StateDict state = translated(c["state"]);
  model.load_state_dict(state);
  model.to(golden_device);
  const Tensor x = file.tensor(c["x"].as_string()).to(golden_device);  // [steps, batch, 3, height, width]
  const Tensor y = file.tensor(c["y"].as_string()).to(i64).to(golden_device);
  const Tensor logits = model(x[0]);
  expect_close(logits, file.tensor(c["logits"].as_string()), tolerance_of(c), "logits");
  const Tensor loss = cross_entropy(logits, y[0]);
  expect_close(loss.item(), golden_number(c["loss"]), tolerance_of(c), "loss");
  loss.backward();
  expect_gradients(file, c, model, [&](const std::string& name) { return recorded_names.at(name); });

  model.load_state_dict(state);  // the running statistics, too
  const Tree& sgd = c["sgd"];
  optim::SGD optimizer(model.named_parameters(), optim::SgdOptions{.lr = sgd["lr"].as_double(),
                                                                   .momentum = sgd["momentum"].as_double(),
                                                                   .weight_decay = sgd["weight_decay"].as_double()});
  std::vector<double> losses;
  for (int64_t step = 0; step < x.size(0); ++step) {
    optimizer.zero_grad();
    const Tensor step_loss = cross_entropy(model(x[step]), y[step]);
    losses.push_back(step_loss.item());
    step_loss.backward();
    optimizer.step();
  }
  expect_losses(losses, c);
  const Tolerance after{c["train_rtol"].as_double(), 5e-3};
  const StateDict trained = model.state_dict();
  for (const auto& [name, tensor] : translated(c["state_after"]))
    expect_close(trained.at(name).to(tensor.dtype()), tensor, after, name + " after training");
  NoGrad guard;
  model.eval();
  expect_close(model(x[0]), file.tensor(c["eval_logits_after"].as_string()), after, "eval_logits_after");
}

struct DigitsMlp : nn::Module<DigitsMlp> {
  DigitsMlp(int64_t in, int64_t hidden, int64_t out)
      : first(this, "0", {.in = in, .out = hidden}), second(this, "2", {.in = hidden, .out = out}) {}
  Tensor forward(const Tensor& x) { return second(relu(first(x))); }
  nn::Linear first;
  nn::Linear second;
};

void check_digits_mlp(const GoldenFile& file, const Tree& c) {
  const Tree& params = c["params"];
  const StateDict state = tensors_of(file, c["state"]);
  DigitsMlp model(state.at("0.weight").size(1), params["hidden"].as_int(), state.at("2.weight").size(0));
  load(model, state);
  model.to(golden_device);
  if (!params["optimizer"].contains("AdamW")) throw Skip{"digits_mlp with an optimizer other than AdamW"};
  optim::AdamW optimizer(model.named_parameters(), adamw_options(params["optimizer"]["AdamW"]));
  const Tensor x = file.tensor(c["x"].as_string()).to(golden_device).to(f32) / 16;
  const Tensor y = file.tensor(c["y"].as_string()).to(golden_device).to(i64);
  const int64_t batch = params["batch"].as_int();
  std::vector<double> losses;
  for (int64_t epoch = 0; epoch < params["epochs"].as_int(); ++epoch)
    for (int64_t first = 0; first < x.size(0); first += batch) {
      const Tensor loss = cross_entropy(model(x.slice(0, first, first + batch)), y.slice(0, first, first + batch));
      losses.push_back(loss.item());
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
  expect_losses(losses, c);
  const StateDict after = model.state_dict();
  for (const auto& [name, stored] : c["state_after"].as_map())
    expect_close(after.at(name), file.tensor(stored.as_string()), tolerance_of(c), name + " after training");
  NoGrad guard;
  expect_close(mean(eq(argmax(model(x), 1), y).to(f32)).item(), golden_number(c["train_accuracy_after"]),
               tolerance_of(c), "training accuracy");
}

}  // namespace

void run_model(const GoldenFile& file, Report& report) {
  for_each_case(file, [&](const std::string&, const Tree& c) {
    report.run(case_name(file, c), Tree::map({{"op", file.name}}), [&] {
      if (file.name == "model_gpt2") return check_gpt2(file, c);
      if (file.name == "model_llama") return check_llama(file, c);
      if (file.name == "model_bert") return check_bert(file, c);
      if (file.name == "model_resnet") return check_resnet(file, c);
      if (file.name == "model_digits_mlp") return check_digits_mlp(file, c);
      throw Skip{fmt::format("{} is not in this version", file.name.substr(file.name.find('_') + 1))};
    });
  });
}

}  // namespace weft::testing
