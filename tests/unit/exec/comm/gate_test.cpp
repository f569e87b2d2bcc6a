#include "exec/comm/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/comm/hmac.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

using ::testing::HasSubstr;

constexpr Seconds kLong{20};
const char* const kKey = "the key of these tests";
const char* const kPurpose = "test";

Gate make_gate(std::size_t most_waiting = 256, Seconds patience = Seconds{5},
               std::function<void(const std::string&)> on_stranger = {}) {
  return Gate(listen_at(kLoopback, 0), {.key = kKey,
                                        .purpose = kPurpose,
                                        .patience = patience,
                                        .most_waiting = most_waiting,
                                        .on_stranger = std::move(on_stranger)});
}

Socket connect(const Gate& gate) { return connect_to(kLoopback, gate.port(), after(kLong)); }

GateCall call_of(const Gate& gate) {
  return {.address = kLoopback,
          .port = gate.port(),
          .key = [] { return std::string(kKey); },
          .purpose = kPurpose,
          .caller = {3, 4}};
}

void say(const Socket& socket, const std::string& text) {
  socket.send(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

std::string hear(const Socket& socket, std::size_t size) {
  std::string text(size, '\0');
  std::size_t at = 0;
  while (at < size) {
    if (!is_readable(socket)) {
      std::this_thread::yield();
      continue;
    }
    const auto got = socket.receive(reinterpret_cast<std::byte*>(text.data()) + at, size - at);
    if (got.closed) break;
    at += got.bytes;
  }
  text.resize(at);
  return text;
}

// The gate in a thread of its own, until the test is over.
class Served {
 public:
  explicit Served(Gate& gate)
      : thread_([this, &gate](const std::stop_token& stop) {
          while (!stop.stop_requested())
            if (gate.admit(after(Seconds{0.01}))) {
              ++admitted;
              admitted.notify_all();
            }
        }) {}
  // The gate answers before it says whom it has let in.
  void wait_for_one() const { admitted.wait(0); }

  std::atomic<int> admitted = 0;

 private:
  std::jthread thread_;
};

TEST(Gate, LetsInWhoKnowsTheKeyAndSaysWhoItIs) {
  Gate gate = make_gate();
  std::jthread caller([&] { call_gate(call_of(gate), after(kLong)); });
  const auto guest = gate.admit(after(kLong));
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->caller.rank, 3);
  EXPECT_EQ(guest->caller.channel, 4);
}

TEST(Gate, TurnsAwayWhoHasAnotherKeyOrAnotherPurpose) {
  int strangers = 0;
  Gate gate = make_gate(256, Seconds{5}, [&](const auto& from) {
    EXPECT_EQ(from, kLoopback);
    ++strangers;
  });
  Served served(gate);
  const std::array<std::pair<const char*, const char*>, 2> cases{
      {{"another key", kPurpose}, {kKey, "other"}}};
  for (const auto& [key, purpose] : cases) {
    const Socket socket = connect(gate);
    EXPECT_EQ(greet(socket, key, purpose, {}, after(kLong)), GreetingEnd::kStranger);
  }
  EXPECT_EQ(served.admitted, 0);
}

// Who cannot check the gate's proof, or does not care, is not let in by what it says then.
TEST(Gate, AWrongProofOrTheGatesOwnOpensNothing) {
  std::atomic<int> strangers = 0;
  Gate gate = make_gate(256, Seconds{5}, [&](const auto&) { ++strangers; });
  Served served(gate);
  for (bool reflects : {false, true}) {
    const Socket socket = connect(gate);
    say(socket, "zplan/2\n" + random_bytes(32));
    const std::string answer = hear(socket, 64);
    ASSERT_EQ(answer.size(), 64u);
    say(socket, std::string(8, '\0') + (reflects ? answer.substr(32) : random_bytes(32)));
    EXPECT_EQ(hear(socket, 1), "");
  }
  EXPECT_EQ(strangers, 2);
  EXPECT_EQ(served.admitted, 0);
}

// Stands between a caller and the gate and hands on what they say; both wait for the end of it.
class Between {
 public:
  explicit Between(const Gate& gate) : onward_(connect(gate)), listener_(listen_at(kLoopback, 0)) {
    caller_ = std::jthread([this] {
      const Socket socket = connect_to(kLoopback, listener_.own_port(), after(kLong));
      greet(socket, kKey, kPurpose, {3, 4}, after(kLong));
    });
    caught_ = accept(listener_, after(kLong));
  }

  // The caller's hello and its proof, of which `change` may make another one; then the gate's word.
  std::string hello, proof;
  std::string relay(const std::function<void(std::string&)>& change) {
    hello = hear(caught_.value(), 40);
    say(onward_, hello);
    say(*caught_, hear(onward_, 64));
    proof = hear(caught_.value(), 40);
    change(proof);
    say(onward_, proof);
    std::string word = hear(onward_, 1);
    say(*caught_, word);
    caught_.reset();
    return word;
  }

 private:
  Socket onward_, listener_;
  std::optional<Socket> caught_;
  std::jthread caller_;
};

// Everything that is said is written down, and said again later.
TEST(Gate, WhatWasSaidOnceOpensNothingAgain) {
  Gate gate = make_gate();
  Served served(gate);
  Between between(gate);
  EXPECT_EQ(between.relay([](std::string&) {}).size(), 1u);
  served.wait_for_one();
  const Socket again = connect(gate);
  say(again, between.hello);
  EXPECT_EQ(hear(again, 64).size(), 64u);
  say(again, between.proof);
  EXPECT_EQ(hear(again, 1), "");
  EXPECT_EQ(served.admitted, 1);
}

// The rank and the channel are said in plain bytes ahead of the proof.
TEST(Gate, WhoTheCallerIsCannotBeChangedOnTheWay) {
  Gate gate = make_gate();
  Served served(gate);
  for (const std::size_t byte : {0, 4}) {
    Between between(gate);
    EXPECT_EQ(between.relay([&](std::string& proof) { ++proof[byte]; }), "") << byte;
  }
  EXPECT_EQ(served.admitted, 0);
}

TEST(Gate, SilentOnesDoNotKeepTheOthersOut) {
  Gate gate = make_gate();
  std::vector<Socket> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect(gate));
  std::jthread caller([&] { call_gate(call_of(gate), after(kLong)); });
  EXPECT_TRUE(gate.admit(after(Seconds{4})));
}

TEST(Gate, SilentOnesAreTurnedAwayInTime) {
  int strangers = 0;
  Gate gate = make_gate(256, Seconds{0.1}, [&](const auto&) { ++strangers; });
  const Socket silent = connect(gate);
  EXPECT_FALSE(gate.admit(after(Seconds{0.3})));
  EXPECT_EQ(strangers, 1);
  EXPECT_EQ(hear(silent, 1), "");
}

TEST(Gate, TheOneThatHasWaitedLongestMakesRoom) {
  int strangers = 0;
  Gate gate = make_gate(4, Seconds{100}, [&](const auto&) { ++strangers; });
  std::vector<Socket> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(connect(gate));
  EXPECT_FALSE(gate.admit(after(Seconds{1})));
  EXPECT_EQ(strangers, 2);
  std::jthread caller([&] { call_gate(call_of(gate), after(kLong)); });
  EXPECT_TRUE(gate.admit(after(kLong)));
}

TEST(Gate, ACrowdOfTheJobsOwnComesInAndNoneIsTurnedAway) {
  constexpr int kCrowd = 40;
  int strangers = 0;
  Gate gate(listen_at(kLoopback, 0), {.key = kKey,
                                      .purpose = kPurpose,
                                      .moment = kLong,
                                      .most_waiting = 4,
                                      .on_stranger = [&](const auto&) { ++strangers; }});
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCrowd; ++i)
    callers.emplace_back([&] { call_gate(call_of(gate), after(kLong)); });
  for (int i = 0; i < kCrowd; ++i) EXPECT_TRUE(gate.admit(after(kLong)));
  EXPECT_EQ(strangers, 0);
}

TEST(Gate, NoMoreThanAGreetingIsTakenFromAStranger) {
  Gate gate = make_gate();
  Served served(gate);
  const Socket socket = connect(gate);
  // The start of a message of 600 MiB.
  const std::string text("nlpz\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x25\0\0\0\0", 24);
  say(socket, text);
  const std::string piece(1 << 20, 'x');
  const TimePoint end = after(kLong);
  std::size_t taken = 0;
  bool is_closed = false;
  while (!is_closed && milliseconds_until(end, 1) > 0) {
    const auto sent = socket.send(reinterpret_cast<const std::byte*>(piece.data()), piece.size());
    taken += sent.bytes;
    is_closed = sent.closed;
  }
  EXPECT_TRUE(is_closed);
  EXPECT_LT(taken, std::size_t{64} << 20);  // what the system holds between the two
}

TEST(Gate, WhoCallsGivesUpOnOneThatDoesNotKnowTheKey) {
  Gate gate = make_gate();
  Served served(gate);
  GateCall call = call_of(gate);
  call.key = [] { return std::string("another key"); };
  call.patience = Seconds{0.2};
  try {
    call_gate(call, after(kLong));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("does not know this job's token"));
  }
}

TEST(Gate, WhoCallsWaitsForTheKey) {
  Gate gate = make_gate();
  Served served(gate);
  GateCall call = call_of(gate);
  int asked = 0;
  call.key = [&] { return ++asked < 3 ? "" : kKey; };
  call_gate(call, after(kLong));
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace zplan::exec
