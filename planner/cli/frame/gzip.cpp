#include "planner/cli/frame/gzip.h"

#include <array>
#include <utility>

#include "planner/core/error.h"

#if ZPLAN_HAS_ZLIB
#include <zlib.h>
#endif

namespace zplan {

bool is_gzip_name(const std::string& path) { return path.ends_with(".gz"); }

#if ZPLAN_HAS_ZLIB

void check_gzip(const std::string& /*path*/) {}

struct Gzip::Stream {
  z_stream z{};
};

Gzip::Gzip(std::function<void(std::string_view)> sink)
    : stream_(std::make_unique<Stream>()), sink_(std::move(sink)) {
  constexpr int kGzipFormat = 16;  // added to the bits of the window, says zlib.h
  constexpr int kMemoryLevel = 8;
  const int status = deflateInit2(&stream_->z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzipFormat,
                                  kMemoryLevel, Z_DEFAULT_STRATEGY);
  ZPLAN_ASSERT(status == Z_OK);
}

Gzip::~Gzip() { deflateEnd(&stream_->z); }

namespace {

void pump(z_stream& z, int flush, const std::function<void(std::string_view)>& sink) {
  std::array<unsigned char, 1 << 16> out{};
  do {
    z.next_out = out.data();
    z.avail_out = out.size();
    deflate(&z, flush);
    sink({reinterpret_cast<const char*>(out.data()), out.size() - z.avail_out});
  } while (z.avail_out == 0);
}

}  // namespace

void Gzip::write(std::string_view text) {
  stream_->z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream_->z.avail_in = static_cast<uInt>(text.size());
  pump(stream_->z, Z_NO_FLUSH, sink_);
}

void Gzip::finish() { pump(stream_->z, Z_FINISH, sink_); }

#else

void check_gzip(const std::string& path) {
  throw_bad_input(path + ": this build cannot compress: zlib1g-dev was missing; leave out .gz");
}

struct Gzip::Stream {};
Gzip::Gzip(std::function<void(std::string_view)> sink) : sink_(std::move(sink)) {}
Gzip::~Gzip() = default;
void Gzip::write(std::string_view /*text*/) {}
void Gzip::finish() {}

#endif

}  // namespace zplan
