// The rank side of a launch: which environments are understood, and what is said about those that are not.
#include "distributed/launch/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "kernels/base/error.h"

namespace weft {
namespace {

using Variables = std::map<std::string, std::string>;

// Sets exactly these of the launcher's variables.
LaunchEnvironment read(const Variables& variables) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "WEFT_STORE"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return LaunchEnvironment::from_environment();
}

TEST(LaunchEnvironment, NoLauncherIsAWorldOfOne) {
  auto environment = read({});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.local_world_size, 1);
  EXPECT_FALSE(environment.store_is_hosted_by_launcher);
  auto store = connect_store(environment);
  store->set("key", "value");
  EXPECT_EQ(store->get("key"), "value");
}

TEST(LaunchEnvironment, ReadsTorchrunsVariables) {
  auto environment = read({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node0"},
                           {"MASTER_PORT", "29500"}});
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.world_size, 8);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 4);
  EXPECT_EQ(environment.master_addr, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_FALSE(environment.store_is_hosted_by_launcher);
}

TEST(LaunchEnvironment, OneHostWhenNoLocalVariablesAreSet) {
  auto environment = read({{"RANK", "2"},
                           {"WORLD_SIZE", "3"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "1234"},
                           {"WEFT_STORE", "launcher"}});
  EXPECT_EQ(environment.local_rank, 2);
  EXPECT_EQ(environment.local_world_size, 3);
  EXPECT_TRUE(environment.store_is_hosted_by_launcher);
}

TEST(LaunchEnvironment, GarbageIsNamed) {
  const Variables good{{"RANK", "1"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29500"}};
  struct Case {
    const char* name;
    const char* value;  // nullptr: unset
    const char* expected;
  };
  for (const Case& bad : {Case{"RANK", "one", "\"one\""},
                          {"RANK", "", "RANK"},
                          {"RANK", "-1", "\"-1\""},
                          {"RANK", "1 ", "\"1 \""},
                          {"RANK", "4", "RANK=4 WORLD_SIZE=4"},
                          {"RANK", nullptr, "WORLD_SIZE is set but RANK is not"},
                          {"WORLD_SIZE", nullptr, "RANK is set but WORLD_SIZE is not"},
                          {"WORLD_SIZE", "0", "WORLD_SIZE"},
                          {"WORLD_SIZE", "99999999999999999999", "WORLD_SIZE"},
                          {"LOCAL_RANK", "4", "LOCAL_RANK=4"},
                          {"LOCAL_RANK", "0x1", "0x1"},
                          {"LOCAL_WORLD_SIZE", "5", "LOCAL_WORLD_SIZE"},
                          {"MASTER_PORT", "70000", "70000"},
                          {"MASTER_PORT", "0", "MASTER_PORT"},
                          {"MASTER_PORT", nullptr, "MASTER_PORT is not set"},
                          {"MASTER_ADDR", nullptr, "MASTER_ADDR is not set"},
                          {"MASTER_ADDR", "", "MASTER_ADDR is not set"},
                          {"WEFT_STORE", "yes", "\"yes\""}}) {
    Variables variables = good;
    variables.erase(bad.name);
    if (bad.value != nullptr) variables[bad.name] = bad.value;
    try {
      read(variables);
      ADD_FAILURE() << bad.name << "=" << (bad.value == nullptr ? "(unset)" : bad.value) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(bad.expected), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
