#include "exec/comm/message.h"

#include <poll.h>

#include <array>
#include <cstring>

namespace zplan::exec {
namespace {

struct Frame {
  std::uint32_t magic;
  std::uint32_t kind;
  std::int64_t number;
  std::uint64_t size;  // bytes of the body
};
constexpr std::uint64_t kMostBytes{kMostMessageBytes};
constexpr std::uint32_t kFrameMagic = 0x7a706c6e;  // "zpln"

}  // namespace

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    const std::uint64_t size = part.size();
    text.append(reinterpret_cast<const char*>(&size), sizeof size);
    text += part;
  }
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t size = 0;
    if (text.size() - at < sizeof size) return {};
    std::memcpy(&size, text.data() + at, sizeof size);
    at += sizeof size;
    if (text.size() - at < size) return {};
    parts.push_back(text.substr(at, size));
    at += size;
  }
  return parts;
}

void MessageStream::put(const Message& message) {
  if (!is_heard_ || closed_) return;
  const Frame frame{kFrameMagic, static_cast<std::uint32_t>(message.kind), message.number,
                    message.body.size()};
  outgoing_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  outgoing_ += message.body;
}

void MessageStream::flush() {
  while (has_unsent()) {
    const auto sent =
        socket_.send(reinterpret_cast<const std::byte*>(outgoing_.data()), outgoing_.size());
    outgoing_.erase(0, sent.bytes);
    if (sent.closed) {  // what it said before may still be there
      is_heard_ = false;
      outgoing_.clear();
    }
    if (sent.bytes == 0) return;
  }
}

std::optional<Message> MessageStream::take() {
  Frame frame;
  if (incoming_.size() < sizeof frame) return std::nullopt;
  std::memcpy(&frame, incoming_.data(), sizeof frame);
  if (frame.magic != kFrameMagic || frame.kind >= kMessageKinds || frame.size > kMostBytes) {
    closed_ = true;
    reason_ = "it sent what is no message";
    return std::nullopt;
  }
  if (incoming_.size() - sizeof frame < frame.size) return std::nullopt;
  Message message{static_cast<MessageKind>(frame.kind), frame.number,
                  incoming_.substr(sizeof frame, frame.size)};
  incoming_.erase(0, sizeof frame + frame.size);
  return message;
}

std::optional<Message> MessageStream::receive() {
  std::array<std::byte, 4000> piece;
  while (!closed_) {
    if (auto message = take()) return message;
    if (closed_) break;
    const Socket::Moved got = socket_.receive(piece.data(), piece.size());
    if (got.closed) {
      closed_ = true;
      reason_ = got.reason;
    }
    if (got.bytes == 0) break;
    incoming_.append(reinterpret_cast<const char*>(piece.data()), got.bytes);
  }
  return std::nullopt;
}

void end_streams(const std::vector<MessageStream*>& streams, Seconds patience) {
  const TimePoint deadline = after(patience);
  constexpr int kSlice = 20;  // milliseconds
  std::vector<bool> has_ended(streams.size());
  bool is_over = false;
  while (!is_over && milliseconds_until(deadline, 1) > 0) {
    std::vector<pollfd> waits;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      MessageStream& stream = *streams[i];
      stream.flush();
      while (stream.receive()) {
      }
      if (stream.is_closed()) continue;
      if (!stream.has_unsent() && !has_ended[i]) {
        stream.end_sending();
        has_ended[i] = true;
      }
      waits.push_back({stream.descriptor(), POLLIN, 0});
    }
    is_over = waits.empty();
    if (!is_over) ::poll(waits.data(), waits.size(), kSlice);
  }
}

}  // namespace zplan::exec
