// What a server sends, by kind, and the parsers of each.
#ifndef IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PARSERS_H_
#define IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PARSERS_H_

#include <cstddef>
#include <vector>

#include "tests/fuzz/native/damage.h"

namespace ignite_strategy {

// What a recording is of; see tests/fuzz/record.py. From kDiscovery on it is a conversation: what a client
// asks for, then pairs: an operation, with the request if only that one gets this answer, and the message.
enum Kind : int {
  kRows = 1,
  kResponse,
  kMetadata,
  kConfiguration,
  kHandshake,
  kPartitions,
  kDiscovery,
  kPass,
  kStatement,
  kOwners,
  kDirectory,
  kFile,
  kKinds
};
constexpr const char* kNames[] = {
    "",           "rows",           "responses",   "type metadata", "cache configurations",
    "handshakes", "partition maps", "discoveries", "passes",        "statements",
    "owners",     "directories",    "files"};

inline bool IsConversation(int kind) { return kind >= kDiscovery; }
// How many parts a recording of this kind has at least.
inline std::size_t LeastParts(int kind) {
  return IsConversation(kind) ? 3 : kind == kRows || kind == kPartitions ? 2 : 1;
}

// The columns of rows, which come with the graph and not from a server: they may ask for as much memory as
// they like, so no rows are read with them.
void ParseColumns(const Bytes& description);
// Parses it all. Throws Error for what cannot be read.
void Parse(int kind, const std::vector<Bytes>& parts);

// conversations.cc: the same with everything that a client does, its connections included, against a peer
// that answers with the recording. `damaged` is the part that `chance` damages, with pieces of `other`; 0 =
// none.
void Talk(int kind, const std::vector<Bytes>& parts, std::size_t damaged, const Bytes& other, Chance& chance);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PARSERS_H_
