#include "exec/comm/rendezvous.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "exec/comm/message.h"
#include "exec/comm/rendezvous_hub.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::exec {
namespace {

using ::testing::Each;
using testing::free_port;
using ::testing::HasSubstr;
using testing::on_ranks;
using testing::options_of;

constexpr int kWorld = 4;

void pause(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(Rendezvous, ExchangesTheTextsOfAllInOrderOfRank) {
  const int port = free_port();
  const auto errors = on_ranks(kWorld, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, kWorld, port));
    EXPECT_EQ(rendezvous.rank(), rank);
    EXPECT_EQ(rendezvous.world(), kWorld);
    for (int round = 0; round < 20; ++round) {
      const std::string own(static_cast<std::size_t>(rank * round * 1000), 'a');
      const auto all = rendezvous.exchange(own + std::to_string(rank));
      ASSERT_EQ(all.size(), std::size_t{kWorld});
      for (int other = 0; other < kWorld; ++other) {
        const std::string theirs(static_cast<std::size_t>(other * round * 1000), 'a');
        ASSERT_EQ(all[static_cast<std::size_t>(other)], theirs + std::to_string(other));
      }
    }
    const auto secrets = rendezvous.exchange(rendezvous.secret());
    EXPECT_THAT(secrets, Each(rendezvous.secret()));
    EXPECT_EQ(rendezvous.secret().size(), 32u);
    rendezvous.finish();
    EXPECT_FALSE(rendezvous.loss());
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, GathersTheTextsOfAllInOneProcess) {
  const int port = free_port();
  const auto errors = on_ranks(kWorld, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, kWorld, port));
    for (int root = 0; root < kWorld; ++root) {
      const std::vector<std::string> got =
          rendezvous.gather(root, std::to_string(10 * root + rank));
      std::vector<std::string> expected;
      for (int other = 0; rank == root && other < kWorld; ++other)
        expected.push_back(std::to_string(10 * root + other));
      EXPECT_EQ(got, expected);
    }
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, GathersLongTextsInPieces) {
  const int port = free_port();
  const auto errors = on_ranks(kWorld, [&](int rank) {
    RendezvousOptions options = options_of(rank, kWorld, port);
    options.most_gathered = 10 * kWorld;
    Rendezvous rendezvous(options);
    const auto text_of = [](int of) {
      return std::string(static_cast<std::size_t>(15 * of), static_cast<char>('a' + of));
    };
    const std::vector<std::string> got = rendezvous.gather(1, text_of(rank));
    std::vector<std::string> expected;
    for (int other = 0; rank == 1 && other < kWorld; ++other) expected.push_back(text_of(other));
    EXPECT_EQ(got, expected);
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

// A fault of the program, which must not give the part of one call to another.
TEST(Rendezvous, WhatIsExchangedAndGatheredAtOnceIsALoss) {
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, 2, port));
    if (rank == 0) rendezvous.exchange("");
    if (rank == 1) rendezvous.gather(0, "");
  });
  EXPECT_THAT(errors, Each(HasSubstr("it exchanges something else than the others")));
}

TEST(Rendezvous, AnInterruptionEndsTheRunThatItCameIn) {
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, 2, port));
    rendezvous.exchange("");
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(rendezvous.enter(step, false));
    rendezvous.exchange("");
    // The next run of the same processes, which is interrupted before any has begun a step.
    if (rank == 0) {
      EXPECT_FALSE(rendezvous.enter(0, true));
    }
    rendezvous.exchange("");
    EXPECT_TRUE(rendezvous.enter(0, false));
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, WaitsForThoseThatStartLate) {
  const int port = free_port();
  for (int late : {0, 2}) {
    const auto errors = on_ranks(kWorld, [&](int rank) {
      if (rank == late) pause(300);
      Rendezvous rendezvous(options_of(rank, kWorld, port));
      rendezvous.finish();
    });
    EXPECT_THAT(errors, Each("")) << late;
  }
}

// With a deadline that rank 1 keeps, however slow the machine is.
TEST(Rendezvous, NamesThoseThatDoNotCome) {
  std::vector<std::string> errors;
  std::atomic<bool> has_come = false;
  Seconds deadline{0.25};
  while (!has_come) {
    const int port = free_port();
    deadline.value *= 2;
    errors = on_ranks(2, [&](int rank) {
      RendezvousOptions options = options_of(rank, kWorld, port);
      if (rank == 0) options.start_deadline = deadline;
      options.has_come = [&](int) { has_come = true; };
      Rendezvous rendezvous(options);
    });
  }
  const std::string line =
      fmt::format("ranks 2, 3 of 4 did not come within {:g} s", deadline.value);
  EXPECT_THAT(errors, Each(HasSubstr(line)));
}

TEST(Rendezvous, WithoutRankZeroTheOthersGiveUp) {
  RendezvousOptions options = options_of(1, 2, free_port());
  options.start_deadline = Seconds{0.2};
  try {
    Rendezvous rendezvous(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 does not reach rank 0"));
  }
}

TEST(Rendezvous, RefusesProcessesThatAreNotAlike) {
  struct Case {
    std::function<void(RendezvousOptions&)> change;  // of rank 1
    std::string line;
  };
  const std::vector<Case> cases{
      {[](auto& o) { o.alike[1].second = "xyz"; }, "has plan xyz, rank 0 has abc"},
      {[](auto& o) { o.alike[0].second = "2"; }, "has version 2, rank 0 has 1"},
      {[](auto& o) { o.alike.pop_back(); }, "is another program"},
      {[](auto& o) { o.at.world = 3; }, "says there are 3 ranks, rank 0 says 2"},
      {[](auto& o) { o.at.rank = 2; }, "rank 2 at 127.0.0.1 is none of 0 to 1"},
  };
  for (const Case& c : cases) {
    const int port = free_port();
    const auto errors = on_ranks(2, [&](int rank) {
      RendezvousOptions options = options_of(rank, 2, port);
      if (rank == 1) c.change(options);
      Rendezvous rendezvous(options);
    });
    EXPECT_THAT(errors, Each(HasSubstr(c.line)));
  }
}

TEST(Rendezvous, RefusesTwoProcessesOfOneRank) {
  const int port = free_port();
  const auto errors = on_ranks(
      3, [&](int thread) { Rendezvous rendezvous(options_of(thread == 0 ? 0 : 1, 3, port)); });
  EXPECT_THAT(errors, Each(HasSubstr("two processes have this rank")));
}

TEST(Rendezvous, StrangersAreIgnored) {
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    if (rank == 1) {
      const Socket silent = connect_to("127.0.0.1", port, after(Seconds{10}));
      const Socket loud = connect_to("127.0.0.1", port, after(Seconds{10}));
      const std::string text = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
      loud.send(reinterpret_cast<const std::byte*>(text.data()), text.size());
      pause(100);
    }
    Rendezvous rendezvous(options_of(rank, 2, port));
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

// As a process of the job would have said it, but for the greeting.
TEST(Rendezvous, AForeignMessageEndsNothing) {
  const int port = free_port();
  std::atomic<int> strangers = 0;
  const auto errors = on_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.on_stranger = [&](const std::string&) { ++strangers; };
    if (rank == 1) {
      for (MessageKind kind : {MessageKind::kHello, MessageKind::kAbort}) {
        MessageStream stranger(connect_to(kLoopback, port, after(Seconds{10})));
        stranger.put({kind, 7, ""});
        stranger.flush();
        pause(50);
      }
    }
    Rendezvous rendezvous(options);
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(strangers, 2);
}

TEST(Rendezvous, ProcessesOfAnotherTokenDoNotComeIn) {
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.start_deadline = Seconds{1};
    if (rank == 1) options.token.given = "a token of another job";
    Rendezvous rendezvous(options);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 of 2 did not come within 1 s"));
  EXPECT_THAT(errors[1], HasSubstr("does not know this job's token"));
}

TEST(Rendezvous, SecretsAreOthersInEachRun) {
  std::vector<std::string> secrets;
  for (int run = 0; run < 2; ++run) {
    const int port = free_port();
    on_ranks(2, [&](int rank) {
      Rendezvous rendezvous(options_of(rank, 2, port));
      EXPECT_TRUE(rendezvous.is_on_one_host());
      EXPECT_EQ(rendezvous.listen_address(), kLoopback);
      if (rank == 0) secrets.push_back(rendezvous.secret());
      rendezvous.finish();
    });
  }
  EXPECT_NE(secrets[0], secrets[1]);
}

TEST(Rendezvous, AnAbortIsToldToAllTheOthers) {
  for (int culprit : {0, 2}) {
    const int port = free_port();
    std::atomic<int> told = 0;
    const auto errors = on_ranks(kWorld, [&](int rank) {
      Rendezvous rendezvous(options_of(rank, kWorld, port));
      rendezvous.exchange("");
      if (rank == culprit) return rendezvous.abort("the disk is full");
      rendezvous.on_lost([&](const Loss& loss) {
        EXPECT_EQ(loss.rank, culprit);
        EXPECT_EQ(loss.reason, "the disk is full");
        ++told;
      });
      rendezvous.exchange("");
    });
    for (int rank = 0; rank < kWorld; ++rank) {
      const std::string line =
          rank == culprit ? "" : "rank " + std::to_string(culprit) + " is lost: the disk is full";
      EXPECT_EQ(errors[static_cast<std::size_t>(rank)], line);
    }
    EXPECT_EQ(told, kWorld - 1);
  }
}

TEST(Rendezvous, AProcessThatJustEndsIsLost) {
  for (int culprit : {0, 3}) {
    const int port = free_port();
    const auto errors = on_ranks(kWorld, [&](int rank) {
      Rendezvous rendezvous(options_of(rank, kWorld, port));
      rendezvous.exchange("");
      if (rank != culprit) rendezvous.finish();
    });
    for (int rank = 0; rank < kWorld; ++rank) {
      if (rank == culprit) continue;
      EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                  HasSubstr("rank " + std::to_string(culprit) + " is lost: it ended before"));
    }
  }
}

TEST(Rendezvous, ALossThatIsKnownIsToldAtOnceAndOnce) {
  const int port = free_port();
  on_ranks(2, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, 2, port));
    if (rank == 1) return rendezvous.abort("enough");
    ASSERT_TRUE(rendezvous.wait_for_loss(Seconds{10}));
    int told = 0;
    for (int i = 0; i < 2; ++i) rendezvous.on_lost([&](const Loss&) { ++told; });
    EXPECT_EQ(told, 2);  // each callback once
    rendezvous.on_lost({});
    EXPECT_EQ(rendezvous.loss()->reason, "enough");
  });
}

TEST(Rendezvous, NobodyIsLostWhileAllBeatEvenWhenTheyCompute) {
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.heartbeat = Seconds{0.05};
    options.silence_deadline = Seconds{1};
    Rendezvous rendezvous(options);
    EXPECT_FALSE(rendezvous.wait_for_loss(Seconds{1.5}));
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

// However long the machine stands still meanwhile: waits are counted, no other deadline is near,
// and nobody speaks or goes before both have had theirs.
TEST(Rendezvous, SilenceIsALoss) {
  constexpr int kMostWaits = 100;
  constexpr Seconds kWait{0.1}, kNever{1000};
  const int port = free_port();
  std::atomic<int> waited = 0;
  const auto errors = on_ranks(2, [&](int rank) {
    RendezvousOptions options = options_of(rank, 2, port);
    options.start_deadline = options.silence_deadline = kNever;
    if (rank == 0) options.silence_deadline = Seconds{0.3};
    if (rank == 1) options.heartbeat = kNever;
    Rendezvous rendezvous(options);
    for (int i = 0; i < kMostWaits && !rendezvous.loss(); ++i) rendezvous.wait_for_loss(kWait);
    ++waited;
    for (int i = 0; i < kMostWaits && waited < 2; ++i) pause(100);
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 1 is lost: no sign of life for 0.3 s")));
}

TEST(Rendezvous, AnInterruptionEndsAllAfterTheSameStep) {
  const int port = free_port();
  std::vector<std::int64_t> steps(kWorld);
  const auto errors = on_ranks(kWorld, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, kWorld, port));
    std::int64_t step = 0;
    while (step < 1000 && rendezvous.enter(step, rank == 2 && step >= 5)) {
      if (rank == 2) pause(2);  // the others are ahead
      ++step;
    }
    steps[static_cast<std::size_t>(rank)] = step;
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(steps, Each(steps[2]));
  EXPECT_GE(steps[2], 5);
}

TEST(Rendezvous, AStepThatIsGivenUpIsToldToAllAheadOfWhatTheyAskFor) {
  const int port = free_port();
  std::vector<std::int64_t> told(kWorld, -1);
  const auto errors = on_ranks(kWorld, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, kWorld, port));
    {
      std::atomic<std::int64_t> step = -1;
      const LossWatch watch(
          rendezvous, [](const Loss&) {}, [&](std::int64_t given_up) { step = given_up; });
      rendezvous.exchange("");
      EXPECT_TRUE(rendezvous.enter(0, false));
      EXPECT_TRUE(rendezvous.change(0));
      if (rank == 2) {
        EXPECT_TRUE(rendezvous.enter(1, false));
        rendezvous.give_up();
        EXPECT_FALSE(rendezvous.change(1));
      } else {
        while (step < 0) pause(1);
        EXPECT_FALSE(rendezvous.enter(1, false));
      }
      told[static_cast<std::size_t>(rank)] = step;
    }
    std::int64_t told_later = -1;
    const auto listen = [&](std::int64_t given_up) { told_later = given_up; };
    rendezvous.on_given_up(listen);
    EXPECT_EQ(told_later, 1);
    rendezvous.on_given_up({});
    rendezvous.exchange("");  // that was of the run before
    told_later = -1;
    rendezvous.on_given_up(listen);
    EXPECT_EQ(told_later, -1);
    rendezvous.on_given_up({});
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(told, Each(1));
}

// The messages of a hub, as (rank, message).
struct Record {
  std::vector<std::pair<int, Message>> sent;
  RendezvousHub hub{3, [this](int rank, const Message& m) { sent.emplace_back(rank, m); }};
  bool enter(int rank, std::int64_t step, bool interrupted = false) {
    hub.receive(rank, {MessageKind::kEnter, 2 * step + (interrupted ? 1 : 0), ""});
    EXPECT_EQ(sent.back().first, rank);
    return sent.back().second.number != 0;
  }
};

TEST(RendezvousHub, InterruptedProcessesFinishTheNewestStepThatOneHasBegun) {
  Record record;
  for (std::int64_t step = 0; step < 4; ++step) EXPECT_TRUE(record.enter(0, step));
  EXPECT_TRUE(record.enter(1, 0));
  EXPECT_TRUE(record.enter(1, 1, true));
  EXPECT_TRUE(record.enter(2, 0));
  EXPECT_FALSE(record.enter(0, 4));
  for (std::int64_t step = 2; step < 4; ++step) EXPECT_TRUE(record.enter(1, step));
  EXPECT_FALSE(record.enter(1, 4));
}

TEST(RendezvousHub, AnInterruptionBeforeTheFirstStepRunsNone) {
  Record record;
  EXPECT_FALSE(record.enter(1, 0, true));
  EXPECT_FALSE(record.enter(0, 0));
}

TEST(RendezvousHub, AStepThatSomebodyMayChangeIsNotGivenUp) {
  Record record;
  EXPECT_TRUE(record.enter(0, 0));
  EXPECT_TRUE(record.enter(1, 0));
  record.hub.receive(1, {MessageKind::kChange, 0, ""});
  EXPECT_EQ(record.sent.back().second.number, 1);
  const std::size_t sent = record.sent.size();
  record.hub.receive(0, {MessageKind::kGiveUp, 0, ""});
  EXPECT_EQ(record.sent.size(), sent);
  EXPECT_TRUE(record.enter(2, 0));
  EXPECT_FALSE(record.enter(1, 1));  // an interruption all the same
}

TEST(RendezvousHub, TellsOfTheFirstLossOnly) {
  Record record;
  record.hub.lose(2, "first");
  record.hub.lose(1, "second");
  ASSERT_EQ(record.sent.size(), 3u);
  for (const auto& [rank, message] : record.sent) {
    EXPECT_EQ(message.kind, MessageKind::kLost);
    EXPECT_EQ(message.number, 2);
    EXPECT_EQ(message.body, "first");
  }
}

TEST(RendezvousHub, OfOneThatHasFinishedTheEndIsNoLoss) {
  Record record;
  record.hub.receive(1, {MessageKind::kFinish, 0, ""});
  record.hub.lose(1, "closed");
  EXPECT_TRUE(record.sent.empty());
  record.hub.receive(0, {MessageKind::kFinish, 0, ""});
  record.hub.receive(2, {MessageKind::kFinish, 0, ""});
  ASSERT_EQ(record.sent.size(), 3u);
  EXPECT_EQ(record.sent[0].second.kind, MessageKind::kFinish);
}

TEST(Messages, TextsAreJoinedAndSplit) {
  const std::vector<std::string> parts{"", "a", std::string(1000, 'b'), std::string(1, '\0')};
  EXPECT_EQ(split(join(parts)), parts);
  EXPECT_EQ(split(""), std::vector<std::string>{});
  EXPECT_EQ(split("abc"), std::vector<std::string>{});
  EXPECT_EQ(split(join(parts) + "x"), std::vector<std::string>{});
  const std::string longer = join({"three"}).substr(0, 8 + 4);  // a letter is missing
  EXPECT_EQ(split(join(parts) + longer), std::vector<std::string>{});
}

// The begin of a message, as a process of the job could only say it by mistake: of this many bytes.
std::string begin_of_message(std::uint64_t bytes) {
  struct {
    std::uint32_t magic = 0x7a706c6e, kind = 0;
    std::int64_t number = 0;
    std::uint64_t size;
  } frame{.size = bytes};
  return {reinterpret_cast<const char*>(&frame), sizeof frame};
}

TEST(Messages, OfMoreBytesThanAnyHasAreNotWaitedFor) {
  for (const bool is_too_large : {false, true}) {
    const Socket listener = listen_at(kLoopback, 0);
    const Socket sender = connect_to(kLoopback, listener.own_port(), after(Seconds{20}));
    std::optional<Socket> receiver = accept(listener, after(Seconds{20}));
    ASSERT_TRUE(receiver);
    const std::string text = begin_of_message((std::uint64_t{1} << 30) + (is_too_large ? 1 : 0));
    ASSERT_EQ(sender.send(reinterpret_cast<const std::byte*>(text.data()), text.size()).bytes,
              text.size());
    MessageStream stream(std::move(*receiver));
    for (int i = 0; i < 50 && !stream.is_closed(); ++i, pause(2)) EXPECT_FALSE(stream.receive());
    EXPECT_EQ(stream.is_closed(), is_too_large);
  }
}

TEST(Rendezvous, ListensWhereAllReachItAtOneAddress) {
  EXPECT_EQ(common_address({"10.0.0.1", "10.0.0.1"}), "10.0.0.1");
  EXPECT_EQ(common_address({"10.0.0.1", "10.1.0.1"}), "") << "at all that it has";
  EXPECT_EQ(common_address({"10.1.0.1", "10.0.0.1", "10.0.0.1"}), "");
  EXPECT_EQ(common_address({kLoopback}), "") << "which other hosts do not reach";
  EXPECT_EQ(common_address({}), "");
}

}  // namespace
}  // namespace zplan::exec
