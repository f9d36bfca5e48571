// Paths that match a pattern, as `tf.io.gfile.glob` has it.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_GLOB_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_GLOB_H_

#include <vector>

#include "native/igfs/backend.h"
#include "native/igfs/path.h"

namespace ignite_strategy {
namespace igfs {

// The paths that match, each of whose components is a pattern of its own: `*`, `?`, `[...]`, and `\` before
// one of these. What is not there matches nothing; whatever else goes wrong is thrown, for no match at all
// would say that there is nothing.
std::vector<Path> Glob(Backend& backend, const Path& pattern, const Wait& wait);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_GLOB_H_
