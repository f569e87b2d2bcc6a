// What members of a communicator say to each other, and how it reaches those of other processes: by
// a Unix-domain socket that each process listens at under its number, and one that it writes to
// for each of the others. Whoever ends, also by SIGKILL, is known to be lost by its socket's end.
// Internal to tests/support/gpu.
#pragma once

#include <array>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/gpu/clocks.h"

namespace zplan::stand_in {

// Where members meet, each once. `number` counts those of a kind, of transfers those of a way.
struct MeetingKey {
  enum class Kind : std::int32_t { kStart, kSplit, kCollective, kTransfer, kEnd };
  Kind kind = Kind::kStart;
  std::int64_t number = 0;
  std::int32_t from = 0, to = 0;
  friend auto operator<=>(const MeetingKey&, const MeetingKey&) = default;
};

// What one says there.
struct Post {
  std::string group{};  // key of the communicator
  MeetingKey meeting{};
  std::int32_t seat = 0;  // its rank; of a transfer: 0 sends, 1 receives
  std::int32_t process = 0;
  std::array<std::int64_t, 4> says{};  // by kind (nccl_board.cpp)
  Clock clock{};
  std::vector<std::byte> data{};
};
using PostPtr = std::shared_ptr<const Post>;

class Links {
 public:
  // Called by threads of the links, which hold no lock meanwhile.
  using Take = std::function<void(PostPtr)>;
  using Lose = std::function<void(int process)>;
  Links(Take take, Lose lose);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  static int own_process();
  // Connects, so that its end is noticed; waits for nothing.
  void open(int process);
  // In order; waits for nothing.
  void send(int process, PostPtr post);
  // Returns when all is written that others read; nothing is taken or lost any more.
  void end();

 private:
  struct Way {
    std::deque<PostPtr> posts{};
    int socket = -1;
    bool is_done = false;
    std::jthread writer{};
  };

  Way& way_to(int process);  // with the lock held
  void accept_all();
  void read_all(int socket);
  void write_all(int process, Way& way);

  const Take take_;
  const Lose lose_;
  const int listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::map<int, Way> ways_;   // by process
  std::vector<int> sockets_;  // that are read
  std::list<std::jthread> readers_;
  std::jthread acceptor_;
};

}  // namespace zplan::stand_in
