// What blocks name their parameters and values by: an index into a table, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zplan {

// `Row`: of the table, so that handles of two tables are two types.
template <typename Row>
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}
  explicit operator bool() const { return index_ >= 0; }
  std::size_t index() const { return static_cast<std::size_t>(index_); }
  friend bool operator==(Handle, Handle) = default;

 private:
  std::int32_t index_ = -1;
};

}  // namespace zplan
