// Copies a file, also from one file system to another.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_COPY_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_COPY_H_

#include "native/igfs/backend.h"

namespace ignite_strategy {
namespace igfs {

// The copy appears whole, at the end. Replaces a file. Memory does not depend on the file's size.
void CopyFile(Backend& source_backend, const Path& source, Backend& target_backend, const Path& target,
              const Wait& wait);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_COPY_H_
