// What graphs and communicators of the stand-in GPU know of each other.
#pragma once

namespace zplan::stand_in {

// One executable graph more, or fewer, has an operation of the communicator. Null: none.
void mark_in_graph(const void* communicator, int change);

// Those that nobody has destroyed are findings.
class Machine;
void report_communicators(Machine& m);

}  // namespace zplan::stand_in
