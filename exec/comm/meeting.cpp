#include "exec/comm/meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kPatience{1};  // for the others to read why they are refused

std::vector<std::string> hello_parts(const RendezvousOptions& options) {
  std::vector<std::string> parts{std::to_string(options.at.world)};
  for (const auto& [name, value] : options.alike) {
    parts.push_back(name);
    parts.push_back(value);
  }
  return parts;
}

std::string make_secret() {
  std::uint64_t words[2];
  if (::getrandom(words, sizeof words, 0) != sizeof words)
    throw Error(ExitCode::kDevice, fmt::format("no random number: {}", std::strerror(errno)));
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

class Host {
 public:
  explicit Host(const RendezvousOptions& options)
      : options_(options),
        listener_(listen_at(options.at.port, is_loopback(options.at.address))),
        own_parts_(hello_parts(options)),
        taken_(static_cast<std::size_t>(options.at.world - 1)) {}

  Meeting run() {
    const TimePoint deadline = after(options_.start_deadline);
    constexpr Seconds kSlice{0.01};
    while (!all_are_here()) {
      if (auto socket = accept(listener_, after(kSlice)))
        strangers_.push_back(std::make_unique<MessageStream>(std::move(*socket)));
      for (auto& stranger : strangers_) listen_to(stranger);
      std::erase(strangers_, nullptr);
      check_taken();
      if (milliseconds_until(deadline, 1) == 0) {
        refuse(ExitCode::kDevice, fmt::format("{} did not come within {:g} s", absent(),
                                              options_.start_deadline.value));
      }
    }
    Meeting meeting{std::move(taken_), make_secret()};
    for (auto& stream : meeting.streams) {
      stream->put({MessageKind::kWelcome, 0, meeting.secret});
      stream->flush();
    }
    return meeting;
  }

 private:
  bool all_are_here() const {
    return std::find(taken_.begin(), taken_.end(), nullptr) == taken_.end();
  }

  std::string absent() const {
    constexpr int kMost = 8;
    std::string ranks;
    int count = 0;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i] != nullptr || ++count > kMost) continue;
      ranks += fmt::format("{}{}", count == 1 ? "" : ", ", i + 1);
    }
    if (count > kMost) ranks += fmt::format(" and {} more", count - kMost);
    return fmt::format("{} {} of {}", count == 1 ? "rank" : "ranks", ranks, options_.at.world);
  }

  // Takes it when it has said who it is.
  void listen_to(std::unique_ptr<MessageStream>& stranger) {
    const auto message = stranger->receive();
    if (message && message->kind == MessageKind::kHello) {
      check_alike(message->number, split(message->body), stranger->other_address());
      taken_[static_cast<std::size_t>(message->number - 1)] = std::move(stranger);
      if (options_.has_come) options_.has_come(static_cast<int>(message->number));
    } else if (message || stranger->is_closed()) {
      stranger.reset();  // none of ours
    }
  }

  void check_alike(std::int64_t rank, const std::vector<std::string>& parts,
                   const std::string& address) {
    const auto refuse_it = [&](const std::string& why) {
      refuse(ExitCode::kBadInput, fmt::format("rank {} at {} {}", rank, address, why));
    };
    if (parts.size() != own_parts_.size()) refuse_it("is another program");
    if (parts[0] != own_parts_[0])
      refuse_it(fmt::format("says there are {} ranks, rank 0 says {}", parts[0], own_parts_[0]));
    for (std::size_t i = 1; i + 1 < parts.size(); i += 2) {
      if (parts[i] != own_parts_[i]) refuse_it("is another program");
      if (parts[i + 1] == own_parts_[i + 1]) continue;
      refuse_it(fmt::format("has {} {}, rank 0 has {}", parts[i], parts[i + 1], own_parts_[i + 1]));
    }
    if (rank < 1 || rank >= options_.at.world)
      refuse_it(fmt::format("is none of 0 to {}", options_.at.world - 1));
    if (taken_[static_cast<std::size_t>(rank - 1)] != nullptr)
      refuse_it("is there already: two processes have this rank");
  }

  // One that ends before the start ends it for all.
  void check_taken() {
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i] == nullptr) continue;
      taken_[i]->receive();
      if (taken_[i]->is_closed())
        refuse(ExitCode::kDevice, fmt::format("rank {} ended before all had come", i + 1));
    }
  }

  [[noreturn]] void refuse(ExitCode code, const std::string& why) {
    std::vector<MessageStream*> streams;
    for (auto* list : {&taken_, &strangers_}) {
      for (auto& stream : *list)
        if (stream != nullptr) streams.push_back(stream.get());
    }
    for (MessageStream* stream : streams)
      stream->put({MessageKind::kRefuse, static_cast<int>(code), why});
    end_streams(streams, kPatience);
    throw Error(code, why);
  }

  const RendezvousOptions& options_;
  Socket listener_;
  std::vector<std::string> own_parts_;
  std::vector<std::unique_ptr<MessageStream>> taken_, strangers_;
};

Socket call_host(const RendezvousOptions& options, TimePoint deadline) {
  try {
    return connect_to(options.at.address, options.at.port, deadline);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("rank {} does not reach rank 0: {}", options.at.rank, error.what()));
  }
}

ExitCode code_of(const Message& refusal) {
  const bool is_input = refusal.number == static_cast<int>(ExitCode::kBadInput);
  return is_input ? ExitCode::kBadInput : ExitCode::kDevice;
}

Meeting join_host(const RendezvousOptions& options) {
  const TimePoint deadline = after(options.start_deadline);
  auto stream = std::make_unique<MessageStream>(call_host(options, deadline));
  stream->put({MessageKind::kHello, options.at.rank, join(hello_parts(options))});
  const auto fail = [&](const std::string& why) {
    throw Error(ExitCode::kDevice,
                fmt::format("rank 0 at {}:{} {}", options.at.address, options.at.port, why));
  };
  constexpr int kSlice = 100;  // milliseconds
  while (milliseconds_until(deadline, 1) > 0) {
    stream->flush();
    if (const auto message = stream->receive()) {
      if (message->kind == MessageKind::kRefuse) throw Error(code_of(*message), message->body);
      if (message->kind != MessageKind::kWelcome) fail("is another program");
      Meeting meeting{{}, message->body};
      meeting.streams.push_back(std::move(stream));
      return meeting;
    }
    if (stream->is_closed()) fail("ended before all had come");
    pollfd wait{stream->descriptor(), POLLIN, 0};
    ::poll(&wait, 1, kSlice);
  }
  fail(fmt::format("did not start within {:g} s", options.start_deadline.value));
  return {};
}

}  // namespace

Meeting meet(const RendezvousOptions& options) {
  return options.at.rank == 0 ? Host(options).run() : join_host(options);
}

}  // namespace zplan::exec
