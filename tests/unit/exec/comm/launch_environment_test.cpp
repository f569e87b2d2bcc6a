#include "exec/comm/launch_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<LaunchEnvironment> launched(const Variables& variables) {
  return launch_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

// What the user is told.
std::string refusal(const Variables& variables) {
  try {
    launched(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

void expect_at(const Variables& variables, int rank, int world, int local_rank,
               const std::string& address, int port) {
  const auto at = launched(variables);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->rank, rank);
  EXPECT_EQ(at->world, world);
  EXPECT_EQ(at->local_rank, local_rank);
  EXPECT_EQ(at->address, address);
  EXPECT_EQ(at->port, port);
}

TEST(LaunchEnvironment, NoLauncherAndOneProcessAreNothing) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1234"}}));
  EXPECT_FALSE(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(launched({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
}

TEST(LaunchEnvironment, ByHandTheOwnHostIsTheDefault) {
  expect_at({{"RANK", "1"}, {"WORLD_SIZE", "4"}}, 1, 4, 1, "127.0.0.1", kDefaultPort);
  expect_at({{"RANK", "5"},
             {"WORLD_SIZE", "8"},
             {"LOCAL_RANK", "1"},
             {"MASTER_ADDR", "node1"},
             {"MASTER_PORT", "1234"}},
            5, 8, 1, "node1", 1234);
}

TEST(LaunchEnvironment, APortThatTheLauncherUsesItselfIsLeftToIt) {
  Variables variables{{"RANK", "0"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_PORT", "1234"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  EXPECT_EQ(launched(variables)->port, 1234);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(launched(variables)->port, 1235);
  variables["MASTER_PORT"] = "65535";
  EXPECT_EQ(launched(variables)->port, 65534);
}

TEST(LaunchEnvironment, SrunMeetsAtTheFirstNodeOfTheStep) {
  Variables variables{{"SLURM_PROCID", "3"},       {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_NTASKS", "8"},       {"SLURM_LOCALID", "1"},
                      {"SLURM_JOB_ID", "1234567"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};
  expect_at(variables, 3, 4, 1, "10.0.0.9", kDefaultPort + 567);
  variables["SLURM_NODELIST"] = "gpu[07-09]";
  expect_at(variables, 3, 4, 1, "gpu07", kDefaultPort + 567);
  variables["SLURM_STEP_NODELIST"] = "gpu08";
  expect_at(variables, 3, 4, 1, "gpu08", kDefaultPort + 567);
  variables["MASTER_ADDR"] = "head";
  variables["MASTER_PORT"] = "4000";
  expect_at(variables, 3, 4, 1, "head", 4000);
}

TEST(LaunchEnvironment, AnAllocationWithoutSrunIsNoLauncher) {
  EXPECT_FALSE(launched({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_NODELIST", "n[1-2]"}}));
  EXPECT_FALSE(launched({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));  // a batch script
  const auto step = launched({{"SLURM_NTASKS", "8"},
                              {"SLURM_PROCID", "0"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_NODELIST", "n1"}});
  ASSERT_TRUE(step);
  EXPECT_EQ(step->world, 8);
}

TEST(LaunchEnvironment, MpirunOverSeveralHostsNeedsAnAddress) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "3"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  expect_at(variables, 3, 4, 1, "127.0.0.1", kDefaultPort);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_NE(refusal(variables).find("MASTER_ADDR"), std::string::npos);
  variables["MASTER_ADDR"] = "node1";
  expect_at(variables, 3, 4, 1, "node1", kDefaultPort);
  expect_at({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}}, 1, 2, 0, "127.0.0.1",
            kDefaultPort);
}

TEST(LaunchEnvironment, TheMoreSpecificLauncherDecides) {
  Variables variables{{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_NODELIST", "n[1-2]"},
                      {"OMPI_COMM_WORLD_RANK", "3"},
                      {"OMPI_COMM_WORLD_SIZE", "4"}};
  expect_at(variables, 3, 4, 3, "n1", kDefaultPort);
  variables["RANK"] = "5";
  variables["WORLD_SIZE"] = "6";
  expect_at(variables, 5, 6, 5, "127.0.0.1", kDefaultPort);
}

TEST(LaunchEnvironment, NamesTheVariableThatMakesNoSense) {
  const std::vector<std::pair<Variables, std::string>> cases{
      {{{"RANK", "1"}}, "WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "1x"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "99999999999"}}, "WORLD_SIZE"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}, "LOCAL_RANK"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, "OMPI_COMM_WORLD_SIZE"},
      {{{"PMI_SIZE", "2"}}, "PMI_RANK"},
      {{{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "SLURM_PROCID"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_JOB_ID", "x"}},
       "SLURM_JOB_ID"},
  };
  for (const auto& [variables, name] : cases)
    EXPECT_TRUE(refusal(variables).starts_with(name + ":")) << name << ": " << refusal(variables);
}

TEST(LaunchEnvironment, TheFirstHostOfAList) {
  EXPECT_EQ(first_host("node[003-007,9],login"), "node003");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("gpu-[12,4-5]"), "gpu-12");
  EXPECT_EQ(first_host("rack[0-1]node[2-3].x"), "rack0node2.x");
  EXPECT_EQ(first_host(""), "");
}

TEST(LaunchEnvironment, EmptyVariablesOfTheProcessAreUnset) {
  ::setenv("ZPLAN_TEST_EMPTY", "", 1);
  ::setenv("ZPLAN_TEST_FULL", "x", 1);
  EXPECT_FALSE(process_environment()("ZPLAN_TEST_EMPTY"));
  EXPECT_FALSE(process_environment()("ZPLAN_TEST_UNKNOWN"));
  EXPECT_EQ(process_environment()("ZPLAN_TEST_FULL"), "x");
}

}  // namespace
}  // namespace zplan::exec
