// Strangers against a job that starts: random conversations with its rendezvous and its data ports,
// of which it takes no harm. ZPLAN_HOSTILE_CONVERSATIONS sets their number.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/hmac.h"
#include "exec/comm/message.h"
#include "exec/comm/process_comm.h"
#include "tests/unit/exec/comm/communication_job.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::exec {
namespace {

using testing::communication_job;
using ::testing::Each;
using testing::free_port;
using testing::on_ranks;
using testing::options_of;

constexpr int kWorld = 3;
constexpr std::size_t kAtOnce = 300;  // conversations of the strangers

std::int64_t wanted_conversations() {
  const char* text = std::getenv("ZPLAN_HOSTILE_CONVERSATIONS");
  return text != nullptr ? std::atoll(text) : 4000;
}

// Ports at which this process listens, as the system tells.
std::vector<int> listening_ports() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::vector<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);  // the heading
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::array<std::string, 10> word;
    for (std::string& w : word) words >> w;
    const std::string listens = "0A";
    if (word[3] != listens || !own.contains(fmt::format("socket:[{}]", word[9]))) continue;
    ports.push_back(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

// Its end is a reset, so that thousands of them leave no port in use.
Socket connect_from_somewhere(int port, std::mt19937_64& random) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const linger at_once{1, 0};
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr_in own{}, theirs{};
  own.sin_family = theirs.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(0x7f000000 | (random() % 0xfffffe + 1));
  ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&own), sizeof own);
  theirs.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  theirs.sin_port = htons(static_cast<std::uint16_t>(port));
  ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&theirs), sizeof theirs);
  return socket;
}

std::string random_text(std::mt19937_64& random, std::size_t most) {
  std::string text(random() % (most + 1), '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// What a stranger says: now, and when it has heard something.
struct Speech {
  std::string first, second;
  bool reflects = false;  // says the proof that it heard
  bool stays = false;     // says nothing more and waits
};

const std::string& hello() {
  static const std::string kHello = "zplan/2\n" + random_bytes(32);
  return kHello;
}

std::string mutated(std::string text, std::mt19937_64& random) {
  text[random() % text.size()] ^= static_cast<char>(1 << random() % 8);
  return text;
}

// A frame of a message that says to be larger than all memory.
std::string oversized(std::mt19937_64& random) {
  const std::array<std::uint64_t, 3> frame{0x7a706c6e | (random() % kMessageKinds) << 32, 1,
                                           std::uint64_t{1} << 30};
  return {reinterpret_cast<const char*>(frame.data()), sizeof frame};
}

Speech random_speech(std::mt19937_64& random) {
  switch (random() % 10) {
    case 0:
      return {"", "", false, false};
    case 1:
      return {random_text(random, 4096), ""};
    case 2:
      return {mutated(hello(), random), random_text(random, 80)};
    case 3:
      return {hello().substr(0, random() % hello().size()), ""};
    case 4:
      return {hello(), std::string(8, '\0') + random_bytes(32)};
    case 5:
      return {oversized(random) + std::string(65536, 'x'), ""};
    case 6:
      return {hello(), "", true};
    case 7:
      return {hello() + std::string(8, '\1') + random_bytes(32), ""};  // the proof ahead of time
    case 8:
      return {hello(), random_text(random, 4096)};
    default:
      return {hello().substr(0, random() % 20), "", false, true};
  }
}

// One stranger's conversation, moved on without waiting.
class Conversation {
 public:
  Conversation(int port, std::mt19937_64& random)
      : socket_(connect_from_somewhere(port, random)), speech_(random_speech(random)) {}

  // Whether it goes on.
  bool advance() {
    pollfd look{socket_.descriptor(), POLLIN | POLLOUT, 0};
    ::poll(&look, 1, 0);
    if ((look.revents & (POLLERR | POLLHUP)) != 0) return false;
    if (!has_begun_ && (look.revents & POLLOUT) != 0) {
      has_begun_ = true;
      say(speech_.first);
      if (speech_.second.empty() && !speech_.reflects && !speech_.stays) return false;
    }
    if ((look.revents & POLLIN) == 0) return true;
    std::array<std::byte, 256> heard;
    const auto got = socket_.receive(heard.data(), heard.size());
    if (got.closed) return false;
    std::string text(reinterpret_cast<const char*>(heard.data()), got.bytes);
    heard_ += got.bytes;
    if (speech_.reflects && text.size() == 64)
      speech_.second = std::string(8, '\0') + text.substr(32);
    say(speech_.second);
    speech_.second.clear();
    return true;
  }
  bool has_begun() const { return has_begun_; }
  // A gate answers a greeting, and nothing else.
  std::size_t heard() const { return heard_; }

 private:
  void say(const std::string& text) const {
    socket_.send(reinterpret_cast<const std::byte*>(text.data()), text.size());
  }

  Socket socket_;
  Speech speech_;
  bool has_begun_ = false;
  std::size_t heard_ = 0;
};

// Talk with all ports of the job while it lives.
class Strangers {
 public:
  explicit Strangers(std::uint64_t seed)
      : random_(seed), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  std::int64_t conversations() const { return conversations_; }
  std::size_t most_heard() const { return most_heard_; }

 private:
  void run(const std::stop_token& stop) {
    std::vector<Conversation> talks;
    while (!stop.stop_requested()) {
      const std::vector<int> ports = listening_ports();
      while (!ports.empty() && talks.size() < kAtOnce)
        talks.emplace_back(ports[random_() % ports.size()], random_);
      for (std::size_t i = 0; i < talks.size();) {
        if (talks[i].advance()) {
          ++i;
          continue;
        }
        conversations_ += talks[i].has_begun() ? 1 : 0;
        if (talks[i].heard() > most_heard_) most_heard_ = talks[i].heard();
        std::swap(talks[i], talks.back());
        talks.pop_back();
      }
      if (ports.empty()) std::this_thread::yield();
    }
  }

  std::mt19937_64 random_;
  std::atomic<std::int64_t> conversations_ = 0;
  std::atomic<std::size_t> most_heard_ = 0;
  std::jthread thread_;
};

// Forms, exchanges some numbers in each of a few steps, and ends.
void live(int rank, int port, const Job& job, std::atomic<int>& strangers) {
  RendezvousOptions options = options_of(rank, kWorld, port);
  options.start_deadline = Seconds{60};
  options.on_stranger = [&](const std::string&) { ++strangers; };
  constexpr auto kLate = std::chrono::milliseconds(200);
  if (rank == 2) std::this_thread::sleep_for(kLate);
  Rendezvous rendezvous(options);
  if (rank == 1) std::this_thread::sleep_for(kLate);
  StopSignal signal;
  ProcessComm comm(job, rendezvous, signal, Seconds{60});
  for (int step = 0; step < 3; ++step) {
    std::vector<double> values(1000, rank + step), sums(values.size());
    CollectiveCall call{.kind = CollectiveKind::kAllReduce, .dtype = DType::kF64, .elements = 1000};
    call.input = reinterpret_cast<std::byte*>(values.data());
    call.output = reinterpret_cast<std::byte*>(sums.data());
    comm.collective(rank, 0, call);
    EXPECT_THAT(sums, Each(3.0 + 3 * step));
  }
  rendezvous.finish();
}

TEST(HostilePeers, DoNotKeepAJobFromFormingAndTraining) {
  const Job job = communication_job(
      kWorld, {{.kind = CollectiveKind::kAllReduce, .dtype = DType::kF64, .elements = 1000}});
  std::atomic<int> turned_away = 0;
  int jobs = 0;
  constexpr std::uint64_t kSeed = 20;
  Strangers strangers(kSeed);
  while (strangers.conversations() < wanted_conversations()) {
    const int port = free_port();
    const auto errors = on_ranks(kWorld, [&](int rank) { live(rank, port, job, turned_away); });
    ASSERT_THAT(errors, Each(""));
    ++jobs;
  }
  EXPECT_GT(turned_away, 0);
  constexpr std::size_t kAnswer = 64;
  EXPECT_LE(strangers.most_heard(), kAnswer);
  std::printf("%lld conversations with %d jobs, %d turned away\n",
              static_cast<long long>(strangers.conversations()), jobs, turned_away.load());
}

}  // namespace
}  // namespace zplan::exec
