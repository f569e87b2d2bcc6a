#include "exec/comm/channel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

using Message = std::array<int, 500>;

std::byte* bytes(Message& m) { return reinterpret_cast<std::byte*>(m.data()); }
constexpr Bytes kSize{sizeof(Message)};

TEST(Channel, TheKthSendMeetsTheKthReceive) {
  constexpr int kRounds = 300;
  StopSignal signal;
  Channel channel(signal);
  std::jthread sender([&] {
    Message message;
    for (int round = 0; round < kRounds; ++round) {
      message.fill(round);  // the buffer is free again when send returns
      channel.send(bytes(message), kSize);
    }
  });
  Message message;
  for (int round = 0; round < kRounds; ++round) {
    channel.receive(bytes(message), kSize);
    for (int x : message) ASSERT_EQ(x, round);
  }
}

TEST(Channel, BothSidesLearnWhenTheLaterOneCame) {
  for (bool sender_is_late : {false, true}) {
    StopSignal signal;
    Channel channel(signal);
    TimePoint sent, received, late;
    Message from{}, to{};
    const auto pause = [&](bool is_late) {
      if (!is_late) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      late = std::chrono::steady_clock::now();
    };
    {
      std::jthread sender([&] {
        pause(sender_is_late);
        sent = channel.send(bytes(from), kSize);
      });
      pause(!sender_is_late);
      received = channel.receive(bytes(to), kSize);
    }
    EXPECT_EQ(sent, received);
    EXPECT_GE(sent, late);
  }
}

TEST(Channel, AStopReleasesBothSides) {
  StopSignal signal;
  Channel empty(signal), full(signal);
  std::atomic<int> stopped = 0;
  Message from{}, to{};
  {
    std::jthread sender([&] {
      EXPECT_THROW(full.send(bytes(from), kSize), Stopped);
      ++stopped;
    });
    std::jthread receiver([&] {
      EXPECT_THROW(empty.receive(bytes(to), kSize), Stopped);
      ++stopped;
    });
    signal.stop();
  }
  EXPECT_EQ(stopped, 2);
}

TEST(Channel, RefusesAReceiveOfAnotherSize) {
  StopSignal signal;
  Channel channel(signal);
  Message from{}, to{};
  std::jthread sender([&] { EXPECT_THROW(channel.send(bytes(from), kSize), Stopped); });
  EXPECT_THROW(channel.receive(bytes(to), Bytes{4}), Error);
  signal.stop();
}

}  // namespace
}  // namespace zplan::exec
