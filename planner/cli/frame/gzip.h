// Gzip, for files whose name ends in .gz. Builds without zlib have none and say so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace zplan {

bool is_gzip_name(const std::string& path);
// Throws Error where the build has no zlib.
void check_gzip(const std::string& path);

class Gzip {
 public:
  explicit Gzip(std::function<void(std::string_view)> sink);
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::function<void(std::string_view)> sink_;
};

}  // namespace zplan
