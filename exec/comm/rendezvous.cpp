#include "exec/comm/rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <stop_token>

#include "exec/comm/meeting.h"
#include "exec/comm/rendezvous_hub.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kPatience{1};  // for the others to read the last messages

std::string describe_end(const std::string& reason) {
  return reason.empty() ? "it ended without a word" : "its connection broke: " + reason;
}

Loss lost_to_silence(int rank, Seconds silence) {
  return {rank, fmt::format("no sign of life for {:g} s", silence.value)};
}

}  // namespace

std::string common_address(const std::vector<std::string>& own) {
  if (own.empty() || is_loopback(own.front())) return "";
  const bool is_one =
      std::all_of(own.begin(), own.end(), [&](const auto& each) { return each == own.front(); });
  return is_one ? own.front() : "";
}

std::string describe(const Loss& loss) {
  return fmt::format("rank {} is lost: {}", loss.rank, loss.reason);
}

// The thread that serves the connections. At rank 0 also the hub.
class Rendezvous::Service {
 public:
  Service(Rendezvous& owner, std::vector<std::unique_ptr<MessageStream>> streams)
      : owner_(owner),
        hub_(owner.world(), [this](int rank, const Message& m) { deliver(rank, m); }),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!wake_.is_open()) throw Error(ExitCode::kDevice, "no event descriptor can be had");
    int rank = is_host() ? 1 : 0;
    for (auto& stream : streams)
      peers_.push_back({rank++, std::move(stream), std::chrono::steady_clock::now()});
    waits_.resize(peers_.size() + 1);
  }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.descriptor(), &one, sizeof one);
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      wait();
      pass_on_own();
      for (Peer& peer : peers_) hear(peer);
      beat();
      for (Peer& peer : peers_)
        if (peer.stream) peer.stream->flush();
    }
    pass_on_own();
    std::vector<MessageStream*> streams;
    for (Peer& peer : peers_)
      if (peer.stream) streams.push_back(peer.stream.get());
    end_streams(streams, kPatience);
  }

 private:
  struct Peer {
    int rank;
    std::unique_ptr<MessageStream> stream;  // null once it has ended
    TimePoint heard;
  };

  bool is_host() const { return owner_.rank() == 0; }

  void wait() {
    waits_[0] = {wake_.descriptor(), POLLIN, 0};
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const MessageStream* stream = peers_[i].stream.get();
      const bool sends = stream != nullptr && stream->has_unsent();
      waits_[i + 1] = {stream != nullptr ? stream->descriptor() : -1,
                       static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0};
    }
    constexpr int kLong = 1000;  // milliseconds
    ::poll(waits_.data(), waits_.size(), milliseconds_until(next_beat_, kLong));
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wake_.descriptor(), &count, sizeof count);
  }

  void pass_on_own() {
    std::vector<Message> messages;
    {
      const std::lock_guard lock(owner_.mutex_);
      messages.swap(owner_.outgoing_);
    }
    for (const Message& message : messages) {
      if (is_host()) {
        hub_.receive(0, message);
      } else if (peers_[0].stream) {
        peers_[0].stream->put(message);
      }
    }
  }

  // From the hub.
  void deliver(int rank, const Message& message) {
    if (rank == 0) return owner_.take(message);
    if (auto& stream = peers_[static_cast<std::size_t>(rank - 1)].stream) stream->put(message);
  }

  void hear(Peer& peer) {
    if (!peer.stream) return;
    while (const auto message = peer.stream->receive()) {
      peer.heard = std::chrono::steady_clock::now();
      if (is_host()) {
        hub_.receive(peer.rank, *message);
      } else {
        owner_.take(*message);
      }
    }
    const Seconds most = owner_.options_.silence_deadline;
    if (peer.stream->is_closed()) {
      lose({peer.rank, describe_end(peer.stream->reason())});
      peer.stream.reset();
    } else if (seconds_since(peer.heard) > most) {
      lose(lost_to_silence(peer.rank, most));
    }
  }

  void lose(const Loss& loss) {
    if (is_host()) {
      hub_.lose(loss.rank, loss.reason);
    } else {
      owner_.lose(loss);
    }
  }

  void beat() {
    if (std::chrono::steady_clock::now() < next_beat_) return;
    next_beat_ = after(owner_.options_.heartbeat);
    for (Peer& peer : peers_)
      if (peer.stream) peer.stream->put({MessageKind::kHeartbeat, 0, ""});
  }

  Rendezvous& owner_;
  RendezvousHub hub_;
  Socket wake_;  // an event counter
  std::vector<Peer> peers_;
  std::vector<pollfd> waits_;
  TimePoint next_beat_{};
};

Rendezvous::Rendezvous(const RendezvousOptions& options) : options_(options) {
  Meeting meeting = meet(options_);
  secret_ = std::move(meeting.secret);
  on_one_host_ = meeting.on_one_host;
  if (!meeting.streams.empty()) {
    std::vector<std::string> own;
    for (const auto& stream : meeting.streams) own.push_back(stream->own_address());
    own_address_ = own.front();
    common_address_ = common_address(own);
    host_address_ = rank() == 0 ? own_address_ : meeting.streams[0]->other_address();
  }
  service_ = std::make_unique<Service>(*this, std::move(meeting.streams));
  thread_ = std::jthread([this](const std::stop_token& stop) { service_->run(stop); });
}

Rendezvous::~Rendezvous() {
  abort("it ended before the others");
  thread_.request_stop();
  service_->wake();
}

std::string Rendezvous::listen_address() const {
  if (is_on_one_host()) return kLoopback;
  return common_address_;
}

void Rendezvous::post(Message message) {
  {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(message));
  }
  service_->wake();
}

Message Rendezvous::ask(Message request) {
  {
    const std::lock_guard lock(mutex_);
    answer_.reset();
  }
  post(std::move(request));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return answer_ || loss_ || aborted_; });
  if (answer_) return std::move(*answer_);
  if (loss_) throw Error(ExitCode::kDevice, describe(*loss_));
  throw Error(ExitCode::kDevice, fmt::format("rank {} has given up", rank()));
}

std::vector<std::string> Rendezvous::exchange(const std::string& own) {
  return split(ask({MessageKind::kExchange, 0, own}).body);
}

std::vector<std::string> Rendezvous::gather(int root, const std::string& own) {
  const auto most =
      static_cast<std::size_t>(std::max<std::int64_t>(1, options_.most_gathered / world()));
  std::vector<std::string> all;
  for (std::size_t begin = 0;; begin += most) {
    const std::int64_t has_more = begin + most < own.size() ? 1 : 0;
    const std::string piece = own.substr(std::min(begin, own.size()), most);
    const Message answer = ask({MessageKind::kGather, 2 * root + has_more, piece});
    const std::vector<std::string> pieces = split(answer.body);
    all.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) all[i] += pieces[i];
    if (answer.number == 0) return all;
  }
}

bool Rendezvous::enter(std::int64_t step, bool interrupted) {
  return ask({MessageKind::kEnter, 2 * step + (interrupted ? 1 : 0), ""}).number != 0;
}

bool Rendezvous::change(std::int64_t step) {
  return ask({MessageKind::kChange, step, ""}).number != 0;
}

void Rendezvous::give_up() { post({MessageKind::kGiveUp, 0, ""}); }

void Rendezvous::finish() { ask({MessageKind::kFinish, 0, ""}); }

void Rendezvous::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || aborted_) return;
    aborted_ = true;
    changed_.notify_all();
  }
  post({MessageKind::kAbort, 0, reason});
}

std::optional<Loss> Rendezvous::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

std::optional<Loss> Rendezvous::wait_for_loss(Seconds deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, after(deadline), [&] { return loss_.has_value(); });
  return loss_;
}

void Rendezvous::on_lost(std::function<void(const Loss&)> callback) {
  const std::lock_guard lock(callback_mutex_);
  callback_ = std::move(callback);
  tell_of_loss();
}

void Rendezvous::on_given_up(std::function<void(std::int64_t step)> callback) {
  const std::lock_guard lock(callback_mutex_);
  given_up_callback_ = std::move(callback);
  if (given_up_ && given_up_callback_) given_up_callback_(*given_up_);
}

void Rendezvous::tell_of_loss() {
  const std::optional<Loss> known = loss();
  if (!known || !callback_) return;
  callback_(*known);
  callback_ = nullptr;
}

void Rendezvous::take(const Message& message) {
  if (message.kind == MessageKind::kHeartbeat) return;
  if (message.kind == MessageKind::kLost)
    return lose({static_cast<int>(message.number), message.body});
  if (message.kind == MessageKind::kGiveUp) {
    const std::lock_guard lock(callback_mutex_);
    given_up_ = message.number;
    if (given_up_callback_) given_up_callback_(*given_up_);
    return;
  }
  const bool is_answer =
      message.kind == MessageKind::kExchange || message.kind == MessageKind::kGather ||
      message.kind == MessageKind::kEnter || message.kind == MessageKind::kChange ||
      message.kind == MessageKind::kFinish;
  if (!is_answer) return lose({0, "it sent what it must not send"});
  if (message.kind == MessageKind::kExchange) {
    const std::lock_guard lock(callback_mutex_);
    given_up_.reset();
  }
  const std::lock_guard lock(mutex_);
  finished_ = finished_ || message.kind == MessageKind::kFinish;
  answer_ = message;
  changed_.notify_all();
}

void Rendezvous::lose(const Loss& loss) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || loss_ || aborted_) return;
    loss_ = loss;
  }
  {
    const std::lock_guard lock(callback_mutex_);
    tell_of_loss();  // it knows more than those who ask
  }
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace zplan::exec
