#include "tests/support/gpu/nccl_links.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace zplan::stand_in {
namespace {

constexpr std::chrono::seconds kPatience{2};  // at the end, with who does not read

// Ahead of the group's key, the clock and the data.
struct Header {
  MeetingKey meeting;
  std::int32_t seat, process;
  std::array<std::int64_t, 4> says;
  std::uint64_t group, clock, data;  // numbers of elements
};

// A name outside of the file system, which goes with its socket.
struct Address {
  explicit Address(int process) {
    const std::string text = fmt::format("zplan-stand-in-{}", process);
    text.copy(name.sun_path + 1, text.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size = 0;
};

int listen_as(int process) {
  constexpr int kBacklog = 64;
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Address address(process);
  if (::bind(made, address.get(), address.size) != 0 || ::listen(made, kBacklog) != 0)
    throw std::runtime_error(fmt::format("the stand-in GPU cannot listen: {}", strerror(errno)));
  return made;
}

bool send_bytes(int socket, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    next += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_bytes(int socket, void* data, std::size_t bytes) {
  auto* next = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t came = ::recv(socket, next, bytes, 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return false;
    next += came;
    bytes -= static_cast<std::size_t>(came);
  }
  return true;
}

bool send_post(int socket, const Post& post) {
  const Header header{post.meeting,      post.seat,         post.process,    post.says,
                      post.group.size(), post.clock.size(), post.data.size()};
  return send_bytes(socket, &header, sizeof header) &&
         send_bytes(socket, post.group.data(), post.group.size()) &&
         send_bytes(socket, post.clock.data(), post.clock.size() * sizeof post.clock[0]) &&
         send_bytes(socket, post.data.data(), post.data.size());
}

// Null: the other has ended.
PostPtr receive_post(int socket) {
  Header header{};
  if (!receive_bytes(socket, &header, sizeof header)) return nullptr;
  const auto post = std::make_shared<Post>();
  post->group.resize(header.group);
  post->clock.resize(header.clock);
  post->data.resize(header.data);
  post->meeting = header.meeting;
  post->seat = header.seat;
  post->process = header.process;
  post->says = header.says;
  const bool is_whole =
      receive_bytes(socket, post->group.data(), post->group.size()) &&
      receive_bytes(socket, post->clock.data(), post->clock.size() * sizeof post->clock[0]) &&
      receive_bytes(socket, post->data.data(), post->data.size());
  return is_whole ? post : nullptr;
}

int process_behind(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size);
  return who.pid;
}

}  // namespace

Links::Links(Take take, Lose lose)
    : take_(std::move(take)),
      lose_(std::move(lose)),
      listener_(listen_as(own_process())),
      acceptor_([this] { accept_all(); }) {}

Links::~Links() { end(); }

void Links::end() {
  if (!acceptor_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    const auto are_written = [&] {
      return std::all_of(ways_.begin(), ways_.end(),
                         [](const auto& way) { return way.second.is_done; });
    };
    changed_.wait_for(lock, kPatience, are_written);
    for (const auto& [process, way] : ways_)
      if (!way.is_done) ::shutdown(way.socket, SHUT_RDWR);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  for (auto& [process, way] : ways_) way.writer.join();
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  readers_.clear();
  for (const int socket : sockets_) ::close(socket);
  ::close(listener_);
}

int Links::own_process() { return ::getpid(); }

Links::Way& Links::way_to(int process) {
  Way& way = ways_[process];
  if (way.writer.joinable()) return way;
  way.socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  way.writer = std::jthread([this, process, &way] { write_all(process, way); });
  return way;
}

void Links::open(int process) {
  const std::scoped_lock lock(mutex_);
  way_to(process);
}

void Links::send(int process, PostPtr post) {
  const std::scoped_lock lock(mutex_);
  way_to(process).posts.push_back(std::move(post));
  changed_.notify_all();
}

void Links::accept_all() {
  while (true) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::scoped_lock lock(mutex_);
    if (socket < 0 && errno == EINTR && !is_ending_) continue;
    if (socket < 0) return;
    sockets_.push_back(socket);
    if (is_ending_) return;
    readers_.emplace_back([this, socket] { read_all(socket); });
  }
}

void Links::read_all(int socket) {
  while (PostPtr post = receive_post(socket)) take_(std::move(post));
  lose_(process_behind(socket));
}

void Links::write_all(int process, Way& way) {
  const Address address(process);
  bool works = ::connect(way.socket, address.get(), address.size) == 0;
  std::unique_lock lock(mutex_);
  while (works) {
    changed_.wait(lock, [&] { return !way.posts.empty() || is_ending_; });
    if (way.posts.empty()) break;
    const PostPtr post = std::move(way.posts.front());
    way.posts.pop_front();
    lock.unlock();
    works = send_post(way.socket, *post);
    lock.lock();
  }
  ::close(way.socket);
  way.is_done = true;
  changed_.notify_all();
  lock.unlock();
  if (!works) lose_(process);
}

}  // namespace zplan::stand_in
