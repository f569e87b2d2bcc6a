// What the stand-in GPU and its graphs know of communicators.
#pragma once

namespace zplan::stand_in {

// One executable graph more, or fewer, has an operation of the communicator. Null: none.
void mark_in_graph(const void* communicator, int change);

// Those that nobody has destroyed are findings.
class Machine;
void report_communicators(Machine& m);
// Without the lock: no thread of theirs uses the machine any more.
void end_links(Machine& m);

}  // namespace zplan::stand_in
