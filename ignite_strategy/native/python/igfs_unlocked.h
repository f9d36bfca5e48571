// How the bindings call igfs.
#ifndef IGNITE_STRATEGY_NATIVE_PYTHON_IGFS_UNLOCKED_H_
#define IGNITE_STRATEGY_NATIVE_PYTHON_IGFS_UNLOCKED_H_

#include <utility>

#include "native/igfs/backend.h"
#include "native/python/bindings.h"
#include "native/wire/error.h"

namespace ignite_strategy {

// Runs `body(wait)` without Python's lock.
template <typename Body>
auto Unlocked(Body body) -> decltype(body(std::declval<const Wait&>())) {
  const Wait wait = PythonWait();
  const WithoutPython unlocked;
  try {
    return body(wait);
  } catch (const Error& error) {
    throw igfs::Outward(error);
  }
}

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_PYTHON_IGFS_UNLOCKED_H_
