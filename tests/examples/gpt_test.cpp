// The GPT example as people use it: trained on one rank and many, stopped and gone on with, told nonsense.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "distributed/comm/process_group.h"
#include "examples/gpt/settings.h"
#include "tensor/file.h"
#include "tests/examples/programs.h"
#include "tests/support/nightly.h"

namespace weft {
namespace {

using test::ChildProcess;
using test::TemporaryFolder;
using Words = std::vector<std::string>;

constexpr int kSteps = 60;

// A little text for the model to learn: words in an order that a linear congruence draws.
void write_corpus(const std::filesystem::path& folder) {
  const Words words = {"the", "weft", "is", "a", "thread", "that", "crosses", "warps", "and", "holds", "cloth"};
  std::filesystem::create_directories(folder);
  uint32_t state = 1;
  for (const char* name : {"a_gut.txt", "b_gut.txt"}) {
    std::string text;
    while (text.size() < 4000) {
      state = state * 1664525 + 1013904223;
      text += words[(state >> 16) % words.size()] + ((state >> 8) % 7 == 0 ? "\n" : " ");
    }
    write_file(folder / name, text);
  }
  write_file(folder / "ignored.txt", "\x01 is no character of the corpus");
}

TrainSettings small_settings(const std::filesystem::path& folder) {
  TrainSettings settings;
  settings.data = folder / "data";
  settings.out = folder / "out";
  settings.steps = kSteps;
  settings.context = 24;
  settings.layers = 2;
  settings.width = 32;
  settings.heads = 2;
  settings.warmup_steps = 10;
  settings.decay_steps = kSteps;
  return settings;
}

// The same as a command line; options of `more` that stand here already replace their values.
Words train_command(const std::filesystem::path& folder, const Words& more = {}) {
  Words words = {test::example_program("gpt"),
                 "train",
                 "--data",
                 folder / "data",
                 "--out",
                 folder / "out",
                 "--steps",
                 std::to_string(kSteps),
                 "--context",
                 "24",
                 "--layers",
                 "2",
                 "--width",
                 "32",
                 "--heads",
                 "2",
                 "--warmup-steps",
                 "10",
                 "--decay-steps",
                 std::to_string(kSteps)};
  for (size_t i = 0; i + 1 < more.size(); i += 2) {
    const auto at = std::find(words.begin(), words.end(), more[i]);
    if (at == words.end())
      words.insert(words.end(), {more[i], more[i + 1]});
    else
      *(at + 1) = more[i + 1];
  }
  return words;
}

Words on_ranks(int ranks, Words command) {
  if (ranks > 1)
    command.insert(command.begin(),
                   {test::weft_program(), "launch", "-n", std::to_string(ranks), "--grace", "2", "--"});
  return command;
}

ChildProcess::Result run(Words command) { return ChildProcess(std::move(command)).wait(); }

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The losses of a log, after a check that it holds nothing else.
std::vector<double> losses_of(const std::filesystem::path& path) {
  std::vector<double> losses;
  for (const std::string& line : lines_of(path)) {
    size_t used = 0;
    losses.push_back(std::stod(line, &used));
    char again[64];
    std::snprintf(again, sizeof again, "%.9g", losses.back());
    EXPECT_EQ(line, again);
    EXPECT_EQ(used, line.size());
  }
  return losses;
}

class Gpt : public ::testing::Test {
 protected:
  void SetUp() override { write_corpus(folder_ / "data"); }
  // Trains and returns the lines of the loss log.
  std::vector<std::string> train_on(int ranks, const Words& more = {}) {
    const std::string log = folder_ / "loss.txt";
    Words options = {"--loss-log", log};
    options.insert(options.end(), more.begin(), more.end());
    const auto result = run(on_ranks(ranks, train_command(folder_.path(), options)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return lines_of(log);
  }
  TemporaryFolder folder_;
};

TEST_F(Gpt, TheLossesDoNotDependOnTheNumberOfRanks) {
  std::vector<std::vector<double>> curves;
  for (const int ranks : test::values({1, 2, 3}, {4, 5})) {
    train_on(ranks);
    curves.push_back(losses_of(folder_ / "loss.txt"));
  }
  // Four ranks as threads of this process.
  TrainSettings settings = small_settings(folder_.path());
  settings.loss_log = folder_ / "threads.txt";
  run_ranks(4, [&](ProcessGroup group) { train(settings, group); });
  curves.push_back(losses_of(settings.loss_log));

  ASSERT_EQ(curves[0].size(), size_t{kSteps});
  EXPECT_LT(curves[0].back(), 0.85 * curves[0].front());  // it learns
  for (size_t c = 1; c < curves.size(); ++c) {
    ASSERT_EQ(curves[c].size(), size_t{kSteps});
    for (size_t i = 0; i < curves[c].size(); ++i)
      EXPECT_NEAR(curves[c][i], curves[0][i], 1e-5 * curves[0][i]) << "curve " << c << ", step " << i + 1;
  }
}

TEST_F(Gpt, AResumedRunIsTheRunThatNeverStopped) {
  for (const int ranks : {1, 2}) {
    const std::vector<std::string> whole = train_on(ranks);
    ASSERT_EQ(whole.size(), size_t{kSteps});
    const std::vector<std::string> first = train_on(ranks, {"--steps", "23"});
    EXPECT_EQ(first, std::vector<std::string>(whole.begin(), whole.begin() + 23));
    const std::vector<std::string> rest = train_on(ranks, {"--resume", folder_ / "out"});
    EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 23, whole.end())) << ranks << " ranks";
  }
}

TEST_F(Gpt, AKilledRunGoesOnFromItsLastSave) {
  for (const int ranks : {1, 2}) {
    const std::vector<std::string> whole = train_on(ranks);
    std::filesystem::remove_all(folder_ / "out");
    const std::string log = folder_ / "killed.txt";
    std::filesystem::remove(log);
    {
      // The schedule does not know of --steps, so a run that would go on forever begins like the others.
      ChildProcess killed(on_ranks(
          ranks, train_command(folder_.path(), {"--steps", "1000000", "--save-every", "10", "--loss-log", log})));
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (lines_of(log).size() < 25 && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      // A save may be under way; what is on disk is whole all the same. The launcher passes SIGTERM on.
      killed.send(ranks == 1 ? SIGKILL : SIGTERM);
      killed.wait();
    }
    ASSERT_TRUE(std::filesystem::exists(folder_ / "out" / "state"));
    const std::vector<std::string> before = lines_of(log);
    if (before.size() >= kSteps) GTEST_SKIP() << "the machine was too slow to stop the run in time";
    const std::vector<std::string> rest = train_on(ranks, {"--resume", folder_ / "out"});
    ASSERT_LE(rest.size(), size_t{kSteps - 20});
    ASSERT_GT(rest.size(), 0u);
    EXPECT_EQ(rest.size() % 10, 0u);  // it went on from a multiple of --save-every
    EXPECT_EQ(rest, std::vector<std::string>(whole.end() - static_cast<std::ptrdiff_t>(rest.size()), whole.end()));
  }
}

TEST_F(Gpt, ASaveOfTwoRanksGoesOnOnThree) {
  const std::vector<std::string> whole = train_on(1);
  train_on(2, {"--steps", "30"});
  const auto result = run(
      on_ranks(3, train_command(folder_.path(), {"--loss-log", folder_ / "loss.txt", "--resume", folder_ / "out"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Rank 2 was not there when the state was saved: it says so, and goes on.
  EXPECT_NE(result.err.find("[rank 2] weft warning: load_state: rank 2 goes on"), std::string::npos) << result.err;
  const std::vector<double> rest = losses_of(folder_ / "loss.txt");
  ASSERT_EQ(rest.size(), 30u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i], std::stod(whole[30 + i]), 1e-5 * rest[i]);
}

TEST_F(Gpt, SaysWhatItDoesAndGeneratesFromTheSavedFolder) {
  const auto result = run(on_ranks(2, train_command(folder_.path())));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Not a terminal: plain lines, nothing that moves a cursor, and all from rank 0.
  EXPECT_EQ(result.out.find_first_of("\r\x1b"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("[rank"), std::string::npos) << result.out;
  const auto progress = [&](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; (at = result.out.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(progress("step "), 20u) << result.out;
  EXPECT_EQ(progress("tok/s  MFU "), 21u) << result.out;  // those and the summary
  EXPECT_NE(result.out.find("step  60/60  100%  loss "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("2 ranks of "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("validation loss "), std::string::npos) << result.out;
  // The text between the two rules: 300 characters and the newline that was its prompt's.
  const size_t begin = result.out.find("----\n"), end = result.out.rfind("\n----\n");
  ASSERT_NE(begin, std::string::npos) << result.out;
  EXPECT_EQ(end - begin - 5, 300u) << result.out;

  const std::string gpt = test::example_program("gpt"), out = folder_ / "out";
  const auto text = run({gpt, "generate", "--from", out, "--prompt", "the weft"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.size(), 8u + 300u + 1u);
  EXPECT_EQ(text.out.substr(0, 8), "the weft");
  EXPECT_EQ(run({gpt, "generate", "--from", out, "--prompt", "the weft"}).out, text.out);
  EXPECT_NE(run({gpt, "generate", "--from", out, "--prompt", "the weft", "--seed", "2"}).out, text.out);
  EXPECT_EQ(run({gpt, "generate", "--from", out, "--prompt", "a", "--characters", "0"}).out, "a\n");
  // The saved weights are those that other programs read, under GPT-2's names.
  const auto inspected = run({test::weft_program(), "inspect", out + "/model.safetensors"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("transformer.h.1.attn.c_attn.weight  F32    [32, 96]"), std::string::npos)
      << inspected.out;
}

// --- what people get wrong ---------------------------------------------------------------------------------------------

// One line on standard error, with `text` in it.
void expect_one_line(const ChildProcess::Result& result, int exit_code, const std::string& start,
                     const std::string& text) {
  EXPECT_FALSE(result.timed_out) << text;
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.err.substr(0, start.size()), start) << result.err;
  EXPECT_NE(result.err.find(text), std::string::npos) << result.err << "expected: " << text;
}

TEST_F(Gpt, WrongWordsAreOneLine) {
  const std::string gpt = test::example_program("gpt");
  expect_one_line(run({gpt}), 2, "gpt: ", "subcommand");
  expect_one_line(run({gpt, "trian"}), 2, "gpt: ", "\"trian\"");
  expect_one_line(run({gpt, "train", "--epochs", "3"}), 2, "gpt: ", "--epochs");
  for (const Words& wrong : {Words{"--steps", "many"}, Words{"--steps", "-1"}, Words{"--batch-size", "0"},
                             Words{"--heads", "0"}, Words{"--lr", "-1"}, Words{"--seed", "x"}})
    expect_one_line(run(train_command(folder_.path(), wrong)), 2, "gpt: ", wrong[0]);
  expect_one_line(run(train_command(folder_.path(), {"--heads", "3"})), 1, "weft::Error [gpt]", "--heads 3");
  expect_one_line(run(train_command(folder_.path(), {"--lr", "nan"})), 1, "weft::Error ", "lr nan");
  // More memory than there is.
  expect_one_line(run(train_command(folder_.path(), {"--context", "1000000000"})), 1, "weft::Error ", "bytes");
}

TEST_F(Gpt, MissingAndUnwritablePlacesAreOneLine) {
  const std::string missing = folder_ / "missing", empty = folder_ / "empty", tiny = folder_ / "tiny";
  std::filesystem::create_directory(empty);
  std::filesystem::create_directory(tiny);
  write_file(tiny + "/a_gut.txt", "short");
  const auto with = [&](const Words& more) { return run(train_command(folder_.path(), more)); };
  expect_one_line(with({"--data", missing}), 1, "weft::Error ", missing);
  expect_one_line(with({"--data", empty}), 1, "weft::Error ", empty);
  expect_one_line(with({"--data", tiny}), 1, "weft::Error ", "25 tokens");
  expect_one_line(with({"--resume", missing}), 1, "weft::Error ", missing);
  // A file where a folder is wanted, and the other way round: also root cannot write there.
  const auto early = with({"--out", tiny + "/a_gut.txt"});
  expect_one_line(early, 1, "weft::Error ", tiny + "/a_gut.txt");
  EXPECT_EQ(early.out, "");  // it does not train first
  expect_one_line(with({"--out", "/proc/weft"}), 1, "weft::Error ", "/proc/weft");
  expect_one_line(with({"--loss-log", empty}), 1, "weft::Error ", empty);
  expect_one_line(with({"--loss-log", missing + "/log"}), 1, "weft::Error ", missing);

  const std::string gpt = test::example_program("gpt");
  expect_one_line(run({gpt, "generate", "--from", missing}), 1, "weft::Error ", missing);
  expect_one_line(run({gpt, "generate", "--from", empty}), 1, "weft::Error ", empty);
}

TEST_F(Gpt, DamagedFilesAreOneLine) {
  train_on(1, {"--steps", "3"});
  const std::filesystem::path out = folder_ / "out";
  const std::string gpt = test::example_program("gpt");
  for (const char* name : {"model", "optimizer", "scheduler", "dataloader", "accelerator"}) {
    const std::filesystem::path file = out / "state" / (std::string(name) + ".safetensors");
    const std::string content = read_file(file);
    for (const size_t size : {size_t{0}, size_t{7}, content.size() / 2, content.size() - 1}) {
      write_file(file, content.substr(0, size));
      expect_one_line(run(train_command(folder_.path(), {"--resume", out})), 1, "weft::Error ", file);
    }
    write_file(file, content);
  }
  expect_one_line(run(train_command(folder_.path(), {"--resume", out, "--width", "64"})), 1, "weft::Error ",
                  "wte.weight");
  expect_one_line(run(train_command(folder_.path(), {"--resume", out, "--steps", "2"})), 1, "weft::Error ",
                  "--steps 2");
  // The random state alone may be lost: a warning, and the training goes on.
  write_file(out / "state" / "random_states_0.safetensors", "");
  const auto warned = run(train_command(folder_.path(), {"--resume", out}));
  expect_one_line(warned, 0, "weft warning: ", "random_states_0");

  expect_one_line(run({gpt, "generate", "--from", out, "--prompt", ""}), 1, "weft::Error ", "prompt");
  expect_one_line(run({gpt, "generate", "--from", out, "--prompt", "QQ"}), 1, "weft::Error ", "vocabulary");
  expect_one_line(run({gpt, "generate", "--from", out, "--temperature", "nan"}), 1, "weft::Error ", "temperature");
  const std::string weights = read_file(out / "model.safetensors");
  write_file(out / "model.safetensors", weights.substr(0, weights.size() / 2));
  expect_one_line(run({gpt, "generate", "--from", out}), 1, "weft::Error ", "model.safetensors");
  write_file(out / "model.safetensors", weights);
  write_file(out / "config.json", "{");
  expect_one_line(run({gpt, "generate", "--from", out}), 1, "weft::Error ", "config.json");
}

// With several ranks each may say its line; the launcher's come last and the job ends with the rank's code.
TEST_F(Gpt, OnManyRanksTooTheJobEnds) {
  const auto fails = [&](int ranks, const Words& more, const std::string& text) {
    const auto result = run(on_ranks(ranks, train_command(folder_.path(), more)));
    EXPECT_FALSE(result.timed_out) << text;
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("weft launch: rank "), std::string::npos) << result.err;
  };
  fails(3, {"--batch-size", "2"}, "weft::Error [gpt] --batch-size 2 gives some of the 3 ranks nothing");
  fails(2, {"--resume", folder_ / "missing"}, "weft::Error [load_state]");
  // Only rank 0 writes these.
  fails(2, {"--loss-log", folder_ / "data"}, "weft::Error [gpt] cannot write");
  fails(2, {"--out", "/proc/weft"}, "weft::Error [gpt] cannot make the folder /proc/weft");
  // The same inside one process.
  TrainSettings settings = small_settings(folder_.path());
  settings.out = "/proc/weft";
  try {
    run_ranks(3, [&](ProcessGroup group) { train(settings, group); });
    ADD_FAILURE() << "trained into /proc";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot make the folder /proc/weft"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft
