// The fields of Megatron-Bridge's configuration that are options of Megatron-LM, a row each.
#pragma once

#include <string_view>

namespace zplan {

struct FieldRow {
  std::string_view option, field;
  std::string_view also = {};  // the same in another section: a switch is on where either is
  bool is_opposite = false;    // a switch that is on where the field is false
};

// Of an option that is no field's: null.
const FieldRow* bridge_row(std::string_view option);

}  // namespace zplan
