// What every backend checks of its kernel nodes ahead of the first step: types of operands and room
// for scratch. Each refusal names the operation.
#pragma once

#include <functional>

#include "exec/backend.h"

namespace zplan::exec {

// Whether an operand of this type fits a letter of its row (kernel_signature.h) in a kernel set of
// that type: t is float32, g that type or float32, a state any floating-point type; all of them are
// float64 where the set's type is.
bool fits_letter(char letter, DType type, DType compute);

// Of all operands but scratch. Throws Error.
void check_types(const KernelCall& call, DType compute);
// The last operand holds the scratch. Throws Error.
void check_scratch(const KernelCall& call, Bytes needed);

// Calls body with each kernel node as it will be run; its operands have no addresses.
void for_each_kernel(const Program& program, const std::function<void(const KernelCall&)>& body);

}  // namespace zplan::exec
