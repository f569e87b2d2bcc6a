#include "exec/comm/meeting.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "exec/comm/gate.h"
#include "exec/comm/hmac.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kReadingTime{1};  // for the others to read why they are refused
constexpr Seconds kSilentWait{5};   // before a process says for whom it waits

std::vector<std::string> hello_parts(const RendezvousOptions& options) {
  std::vector<std::string> parts{std::to_string(options.at.world)};
  for (const auto& [name, value] : options.alike) {
    parts.push_back(name);
    parts.push_back(value);
  }
  return parts;
}

constexpr const char* kPurpose = "rendezvous";
constexpr std::size_t kMeetingBytes = 32;

// Another one for each meeting; it never travels.
std::string secret_of(const std::string& token, const std::string& meeting) {
  return hmac_sha256(token, join({"secret", meeting}));
}

class Host {
 public:
  explicit Host(const RendezvousOptions& options)
      : options_(options),
        listener_(listen_at(options.at.address, options.at.port)),
        token_(options.token),
        gate_(std::move(listener_), {.key = token_.text(),
                                     .purpose = kPurpose,
                                     .on_stranger = [this](const auto& at) { note(at); }}),
        own_parts_(hello_parts(options)),
        taken_(static_cast<std::size_t>(options.at.world - 1)) {}

  // The file ahead of the port, which another job may take at once.
  ~Host() { token_.remove_file(); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  Meeting run() {
    const TimePoint deadline = after(options_.start_deadline);
    TimePoint telling = after(kSilentWait);
    constexpr Seconds kSlice{0.01};
    while (!all_are_here()) {
      if (auto guest = gate_.admit(after(kSlice)))
        guests_.push_back(std::make_unique<MessageStream>(std::move(guest->socket)));
      for (auto& guest : guests_) listen_to(guest);
      std::erase(guests_, nullptr);
      check_taken();
      if (options_.on_waiting && !all_are_here() && milliseconds_until(telling, 1) == 0) {
        options_.on_waiting(absent());
        telling = TimePoint::max();
      }
      if (milliseconds_until(deadline, 1) == 0) {
        refuse(ExitCode::kDevice, fmt::format("{} did not come within {:g} s{}", absent(),
                                              options_.start_deadline.value, strangers()));
      }
    }
    const std::string number = random_bytes(kMeetingBytes);
    const bool on_one_host = all_are_near();
    Meeting meeting{std::move(taken_), secret_of(token_.text(), number), on_one_host};
    for (auto& stream : meeting.streams) {
      stream->put({MessageKind::kWelcome, on_one_host ? 1 : 0, number});
      stream->flush();
    }
    return meeting;
  }

 private:
  bool all_are_here() const {
    return std::find(taken_.begin(), taken_.end(), nullptr) == taken_.end();
  }

  // Each calls from the address that it calls.
  bool all_are_near() const {
    return std::all_of(taken_.begin(), taken_.end(), [](const auto& stream) {
      return stream->own_address() == stream->other_address();
    });
  }

  void note(const std::string& stranger) {
    ++strangers_;
    last_stranger_ = stranger;
    if (options_.on_stranger) options_.on_stranger(stranger);
  }

  std::string strangers() const {
    if (strangers_ == 0) return "";
    return fmt::format("; {} connection{} without this job's token came, the last from {}",
                       strangers_, strangers_ == 1 ? "" : "s", last_stranger_);
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
  void listen_to(std::unique_ptr<MessageStream>& guest) {
    const auto message = guest->receive();
    if (message && message->kind == MessageKind::kHello) {
      check_alike(message->number, split(message->body), guest->other_address());
      taken_[static_cast<std::size_t>(message->number - 1)] = std::move(guest);
      if (options_.has_come) options_.has_come(static_cast<int>(message->number));
    } else if (message || guest->is_closed()) {
      guest.reset();  // it ended, and may call again
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
    for (auto* list : {&taken_, &guests_}) {
      for (auto& stream : *list)
        if (stream != nullptr) streams.push_back(stream.get());
    }
    for (MessageStream* stream : streams)
      stream->put({MessageKind::kRefuse, static_cast<int>(code), why});
    end_streams(streams, kReadingTime);
    throw Error(code, why);
  }

  const RendezvousOptions& options_;
  Socket listener_;
  IssuedToken token_;
  Gate gate_;
  std::vector<std::string> own_parts_;
  std::vector<std::unique_ptr<MessageStream>> taken_, guests_;  // those have not said who they are
  std::int64_t strangers_ = 0;
  std::string last_stranger_;
};

// Sets `token` to the one that opened the gate. Says after a while that it waits.
Socket call_host(const RendezvousOptions& options, TimePoint deadline, std::string& token) {
  try {
    const GateCall call{.address = options.at.address,
                        .port = options.at.port,
                        .key = [&] { return token = read_token(options.token); },
                        .purpose = kPurpose,
                        .caller = {options.at.rank, 0},
                        .patience = options.token_patience};
    return call_gate(call, deadline, [&, telling = after(kSilentWait)]() mutable {
      if (!options.on_waiting || milliseconds_until(telling, 1) > 0) return;
      options.on_waiting(fmt::format("rank 0 at {}:{}", options.at.address, options.at.port));
      telling = TimePoint::max();
    });
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
  std::string token;
  auto stream = std::make_unique<MessageStream>(call_host(options, deadline, token));
  stream->put({MessageKind::kHello, options.at.rank, join(hello_parts(options))});
  const auto fail = [&](const std::string& why) {
    throw Error(ExitCode::kDevice,
                fmt::format("rank 0 at {}:{} {}", options.at.address, options.at.port, why));
  };
  constexpr int kSlice = 100;  // milliseconds
  // Rank 0, which is there, says who does not come before this.
  const TimePoint answered = after({options.start_deadline.value + 2 * kReadingTime.value});
  while (milliseconds_until(answered, 1) > 0) {
    stream->flush();
    if (const auto message = stream->receive()) {
      if (message->kind == MessageKind::kRefuse) throw Error(code_of(*message), message->body);
      if (message->kind != MessageKind::kWelcome) fail("is another program");
      Meeting meeting{{}, secret_of(token, message->body), message->number == 1};
      meeting.streams.push_back(std::move(stream));
      return meeting;
    }
    if (stream->is_closed()) fail("ended before all had come");
    pollfd wait{stream->descriptor(), POLLIN, 0};
    ::poll(&wait, 1, kSlice);
  }
  fail("does not say that all have come");
  return {};
}

}  // namespace

Meeting meet(const RendezvousOptions& options) {
  return options.at.rank == 0 ? Host(options).run() : join_host(options);
}

}  // namespace zplan::exec
