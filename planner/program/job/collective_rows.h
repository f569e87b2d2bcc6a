// The collectives, one row each, in the order of CollectiveKind: enumerator, word, what a member
// brings, what it gets, and how the one becomes the other (collectives.h says what the words mean).
// All that reads collectives reads these rows: the checks of operands, the executors' bodies, the
// volumes that are counted and the algorithms that are priced. Each reader defines
// ZPLAN_COLLECTIVE(Id, word, input, output, result) and includes this file, which undefines it.
#ifndef ZPLAN_COLLECTIVE
#error "define ZPLAN_COLLECTIVE(Id, word, input, output, result) before this file"
#endif

ZPLAN_COLLECTIVE(AllGather, "all_gather", kPart, kParts, kCopy)
ZPLAN_COLLECTIVE(ReduceScatter, "reduce_scatter", kParts, kPart, kSum)
ZPLAN_COLLECTIVE(AllReduce, "all_reduce", kPart, kPart, kSum)
ZPLAN_COLLECTIVE(Broadcast, "broadcast", kPartOfRoot, kPart, kCopy)
ZPLAN_COLLECTIVE(Reduce, "reduce", kPart, kPartOfRoot, kSum)
ZPLAN_COLLECTIVE(AllToAll, "all_to_all", kParts, kParts, kCopy)
ZPLAN_COLLECTIVE(Shift, "shift", kPart, kPart, kNext)

#undef ZPLAN_COLLECTIVE
