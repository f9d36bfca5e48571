// Which names IGFS's endpoint can keep, and those that this client uses for itself.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_NAMES_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_NAMES_H_

#include <string>
#include <string_view>

#include "native/igfs/path.h"

namespace ignite_strategy {
namespace igfs {

// Throws Error(kInvalidArgument) if the server would take the path for another one or could not list it any
// more (it reads names as Windows and the shell do: "a:b", "~a", "a\b"), or if it is one of our own below.
void CheckEndpointPath(const Path& path);

// Where a file is written until it is published: in the directory of its target, under a name of its own.
std::string NewUnpublishedName();
bool IsUnpublished(std::string_view name);

// Where the old version of a file waits while a new one takes its place. The server cannot replace: between
// its two renames only this name exists, and who looks for the file finds it there.
std::string ReplacedName(std::string_view name);
bool IsReplaced(std::string_view name);
// The name of the file whose old version this is.
std::string_view NameOfReplaced(std::string_view name);

// The path with another last component.
Path Sibling(const Path& path, std::string name);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_NAMES_H_
