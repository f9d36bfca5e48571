// igfs:// for TensorFlow: the tables of a filesystem plugin over the backends of native/igfs.
//
// Each slot parses its URI, calls native/igfs and sets the status exactly once; no exception leaves it.
// Sections, as in the interface: 1 files for reading, 2 files for writing, 3 the tree, 4 registration.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/backend.h"
#include "native/igfs/copy.h"
#include "native/igfs/glob.h"
#include "native/igfs/path.h"
#include "native/igfs/target.h"
#include "native/tensorflow/tf_filesystem_api.h"
#include "native/tensorflow/tf_symbols.h"
#include "native/wire/interrupt.h"

namespace ignite_strategy {
namespace {

using igfs::Backend;
using igfs::Location;
using tf_filesystem::FileStatistics;
using tf_filesystem::FilesystemOps;
using tf_filesystem::RandomAccessFile;
using tf_filesystem::RandomAccessFileOps;
using tf_filesystem::WritableFile;
using tf_filesystem::WritableFileOps;
using TfFilesystem = tf_filesystem::Filesystem;

constexpr char kScheme[] = "igfs";

void SetStatus(TF_Status* status, Code code, const char* message) {
  if (status == nullptr) return;  // PathsExist may be called without any
  if (Tf().SetStatus != nullptr) Tf().SetStatus(status, static_cast<TF_Code>(code), message);
}

// Runs `body(const Wait&)` with Ctrl-C watched. Every request has its own limit, so the call as a whole needs
// none.
template <typename Body>
void Run(TF_Status* status, Body body) noexcept {
  try {
    const InterruptWatch watch;
    Wait wait;
    wait.check = watch.Check();
    body(static_cast<const Wait&>(wait));
    return SetStatus(status, Code::kOk, "");
  } catch (const Error& error) {
    const Error outward = igfs::Outward(error);
    return SetStatus(status, outward.code(), outward.what());
  } catch (const std::bad_alloc&) {
    return SetStatus(status, Code::kResourceExhausted, "igfs: out of memory");
  } catch (const std::exception& error) {
    return SetStatus(status, Code::kInternal, error.what());
  }
}

struct Target {
  std::shared_ptr<Backend> backend;
  igfs::Path path;
};

Target Open(const char* uri) {
  Location location = igfs::ParseLocation(uri);
  return {Backend::Mount(igfs::ResolveTarget(location)), std::move(location.path)};
}

char* CopyOf(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

// --- 1. Files for reading
// ---------------------------------------------------------------------------------------------

igfs::ReadableFile* Reading(const RandomAccessFile* file) {
  return static_cast<igfs::ReadableFile*>(file->plugin_file);
}

void CleanupReading(RandomAccessFile* file) { delete Reading(file); }

std::int64_t Read(const RandomAccessFile* file, std::uint64_t offset, std::size_t size, char* buffer,
                  TF_Status* status) {
  std::size_t got = 0;
  Run(status, [&](const Wait& wait) {
    got = Reading(file)->Read(offset, size, buffer, wait);
    // TensorFlow asks again for ever if less than it wanted comes with OK.
    if (got < size) throw Error(Code::kOutOfRange, "igfs: end of file");
  });
  return static_cast<std::int64_t>(got);
}

void NewRandomAccessFile(const TfFilesystem*, const char* uri, RandomAccessFile* file, TF_Status* status) {
  file->plugin_file = nullptr;
  Run(status, [&](const Wait& wait) {
    Target target = Open(uri);
    file->plugin_file = target.backend->OpenRead(target.path, wait).release();
  });
}

// --- 2. Files for writing
// ---------------------------------------------------------------------------------------------

igfs::WritableFile* Writing(const WritableFile* file) {
  return static_cast<igfs::WritableFile*>(file->plugin_file);
}

// Parts of TensorFlow drop a file without closing it and count on its content (the lock file of
// Dataset.cache), as all of TensorFlow's own filesystems allow. After an error nothing is published.
void CleanupWriting(WritableFile* file) {
  if (file->plugin_file == nullptr) return;
  Run(nullptr, [&](const Wait& wait) { Writing(file)->Close(wait); });
  delete Writing(file);
}

void Append(const WritableFile* file, const char* buffer, std::size_t size, TF_Status* status) {
  Run(status, [&](const Wait& wait) { Writing(file)->Append(buffer, size, wait); });
}

std::int64_t Tell(const WritableFile* file, TF_Status* status) {
  std::uint64_t position = 0;
  Run(status, [&](const Wait&) { position = Writing(file)->Tell(); });
  return static_cast<std::int64_t>(position);
}

// Also Sync: what is published is on the nodes of all copies (FULL_SYNC).
void Flush(const WritableFile* file, TF_Status* status) {
  Run(status, [&](const Wait& wait) { Writing(file)->Flush(wait); });
}

// TensorFlow closes a checkpoint's data file twice.
void Close(const WritableFile* file, TF_Status* status) {
  Run(status, [&](const Wait& wait) { Writing(file)->Close(wait); });
}

void OpenForWriting(const char* uri, igfs::Mode mode, WritableFile* file, TF_Status* status) {
  file->plugin_file = nullptr;
  Run(status, [&](const Wait& wait) {
    Target target = Open(uri);
    file->plugin_file = target.backend->OpenWrite(target.path, mode, wait).release();
  });
}

void NewWritableFile(const TfFilesystem*, const char* uri, WritableFile* file, TF_Status* status) {
  OpenForWriting(uri, igfs::Mode::kReplace, file, status);
}

void NewAppendableFile(const TfFilesystem*, const char* uri, WritableFile* file, TF_Status* status) {
  OpenForWriting(uri, igfs::Mode::kAppend, file, status);
}

// --- 3. The tree
// ------------------------------------------------------------------------------------------------------

void Init(TfFilesystem* filesystem, TF_Status* status) {
  filesystem->plugin_filesystem = nullptr;  // a URI says all there is to know
  SetStatus(status, Code::kOk, "");
}

void Cleanup(TfFilesystem*) {}

// Runs `(backend.*method)(path, wait)`.
template <typename Method>
void RunOnTree(const char* uri, TF_Status* status, Method method) {
  Run(status, [&](const Wait& wait) {
    const Target target = Open(uri);
    ((*target.backend).*method)(target.path, wait);
  });
}

void CreateDir(const TfFilesystem*, const char* uri, TF_Status* status) {
  RunOnTree(uri, status, &Backend::MakeDirectory);
}

void RecursivelyCreateDir(const TfFilesystem*, const char* uri, TF_Status* status) {
  RunOnTree(uri, status, &Backend::MakeDirectories);
}

void DeleteFile(const TfFilesystem*, const char* uri, TF_Status* status) {
  RunOnTree(uri, status, &Backend::RemoveFile);
}

void DeleteDir(const TfFilesystem*, const char* uri, TF_Status* status) {
  RunOnTree(uri, status, &Backend::RemoveDirectory);
}

void DeleteRecursively(const TfFilesystem*, const char* uri, std::uint64_t* undeleted_files,
                       std::uint64_t* undeleted_dirs, TF_Status* status) {
  *undeleted_files = 0;
  *undeleted_dirs = 1;  // all or nothing: the tree disappears in one step
  Run(status, [&](const Wait& wait) {
    const Target target = Open(uri);
    target.backend->RemoveTree(target.path, wait);
    *undeleted_dirs = 0;
  });
}

void RenameFile(const TfFilesystem*, const char* source_uri, const char* target_uri, TF_Status* status) {
  Run(status, [&](const Wait& wait) {
    const Target source = Open(source_uri), target = Open(target_uri);
    if (!source.backend->target().SameTree(target.backend->target())) {
      throw Error(Code::kUnimplemented, source.backend->Describe(source.path) + " cannot be renamed to " +
                                            target.backend->Describe(target.path) +
                                            ", in another file system; copy it and remove it");
    }
    source.backend->Rename(source.path, target.path, wait);
  });
}

void CopyFile(const TfFilesystem*, const char* source_uri, const char* target_uri, TF_Status* status) {
  Run(status, [&](const Wait& wait) {
    const Target source = Open(source_uri), target = Open(target_uri);
    igfs::CopyFile(*source.backend, source.path, *target.backend, target.path, wait);
  });
}

void PathExists(const TfFilesystem*, const char* uri, TF_Status* status) {
  RunOnTree(uri, status, &Backend::GetStatus);
}

bool PathsExist(const TfFilesystem* filesystem, char** uris, int count, TF_Status** statuses) {
  bool all = true;
  for (int i = 0; i < count; ++i) {
    bool found = false;
    const auto look = [&](const Wait& wait) {
      const Target target = Open(uris[i]);
      target.backend->GetStatus(target.path, wait);
      found = true;
    };
    Run(statuses != nullptr ? statuses[i] : nullptr, look);
    all = all && found;
  }
  return all;
}

void Stat(const TfFilesystem*, const char* uri, FileStatistics* statistics, TF_Status* status) {
  Run(status, [&](const Wait& wait) {
    const Target target = Open(uri);
    const igfs::Status found = target.backend->GetStatus(target.path, wait);
    *statistics = {static_cast<std::int64_t>(found.size), found.mtime, found.is_directory};
  });
}

// TensorFlow's listdir and walk ask this first and take every error for "no": a cluster that cannot be
// reached would be an empty one, or NotFound. Where it cannot be told, the answer is yes; what follows then
// says why.
bool IsDirectory(const TfFilesystem*, const char* uri, TF_Status* status) {
  bool is_directory = false;
  Run(status, [&](const Wait& wait) {
    Target target;
    try {
      target = Open(uri);
      is_directory = target.backend->GetStatus(target.path, wait).is_directory;
    } catch (const Error& error) {
      if (igfs::MeansNotThere(error) || error.code() == Code::kCancelled) throw;
      is_directory = true;
    }
    if (!is_directory) {
      throw Error(Code::kFailedPrecondition,
                  target.backend->Describe(target.path) + " is a file, not a directory");
    }
  });
  return is_directory;
}

std::int64_t GetFileSize(const TfFilesystem*, const char* uri, TF_Status* status) {
  std::int64_t size = -1;
  Run(status, [&](const Wait& wait) {
    const Target target = Open(uri);
    const igfs::Status found = target.backend->GetStatus(target.path, wait);
    if (found.is_directory) {
      throw Error(Code::kFailedPrecondition,
                  target.backend->Describe(target.path) + " is a directory, not a file");
    }
    size = static_cast<std::int64_t>(found.size);
  });
  return size;
}

// Keeps the authority: igfs://a/x and igfs://b/x are two files. A malformed URI is refused by the call that
// uses it.
char* TranslateName(const TfFilesystem*, const char* uri) {
  try {
    return CopyOf(igfs::ParseLocation(uri).ToString());
  } catch (const std::exception&) {
    return CopyOf(uri);
  }
}

// Gives TensorFlow the texts that `find(const Wait&)` returns.
template <typename Find>
int GiveTexts(char*** entries, TF_Status* status, Find find) {
  int count = 0;
  *entries = nullptr;
  Run(status, [&](const Wait& wait) {
    const std::vector<std::string> texts = find(wait);
    auto* copies = static_cast<char**>(std::malloc(sizeof(char*) * (texts.size() + 1)));
    if (copies == nullptr) throw std::bad_alloc();
    for (const std::string& text : texts) copies[count++] = CopyOf(text);
    *entries = copies;
  });
  return count;
}

int GetChildren(const TfFilesystem*, const char* uri, char*** entries, TF_Status* status) {
  return GiveTexts(entries, status, [&](const Wait& wait) {
    const Target target = Open(uri);
    std::vector<std::string> names;
    for (auto& [name, unused] : target.backend->List(target.path, wait)) names.push_back(std::move(name));
    return names;
  });
}

// TensorFlow's own one takes a cluster that cannot be reached for one without files.
int GetMatchingPaths(const TfFilesystem*, const char* glob, char*** entries, TF_Status* status) {
  return GiveTexts(entries, status, [&](const Wait& wait) {
    const std::string text = glob;
    const std::string root = text.substr(0, text.find('/', text.find("://") + 3));
    const Target target = Open(glob);
    std::vector<std::string> paths;
    for (const igfs::Path& path : igfs::Glob(*target.backend, target.path, wait)) {
      paths.push_back(root + igfs::FormatPath(path));
    }
    return paths;
  });
}

// --- 4. Registration
// --------------------------------------------------------------------------------------------------

template <typename Table>
Table* NewTable() {
  auto* table = static_cast<Table*>(std::calloc(1, sizeof(Table)));
  if (table == nullptr) std::abort();  // TensorFlow has no way to hear of it
  return table;
}

RandomAccessFileOps* ReadingTable() {
  auto* table = NewTable<RandomAccessFileOps>();
  table->cleanup = CleanupReading;
  table->read = Read;
  return table;
}

WritableFileOps* WritingTable() {
  auto* table = NewTable<WritableFileOps>();
  table->cleanup = CleanupWriting;
  table->append = Append;
  table->tell = Tell;
  table->flush = Flush;
  table->sync = Flush;
  table->close = Close;
  return table;
}

FilesystemOps* TreeTable() {
  auto* table = NewTable<FilesystemOps>();
  table->init = Init;
  table->cleanup = Cleanup;
  table->new_random_access_file = NewRandomAccessFile;
  table->new_writable_file = NewWritableFile;
  table->new_appendable_file = NewAppendableFile;
  table->create_dir = CreateDir;
  table->recursively_create_dir = RecursivelyCreateDir;
  table->delete_file = DeleteFile;
  table->delete_dir = DeleteDir;
  table->delete_recursively = DeleteRecursively;
  table->rename_file = RenameFile;
  table->copy_file = CopyFile;
  table->path_exists = PathExists;
  table->paths_exist = PathsExist;
  table->stat = Stat;
  table->is_directory = IsDirectory;
  table->get_file_size = GetFileSize;
  table->translate_name = TranslateName;
  table->get_children = GetChildren;
  table->get_matching_paths = GetMatchingPaths;
  return table;
}

void* Allocate(std::size_t size) { return std::malloc(size); }
void Free(void* memory) { std::free(memory); }

}  // namespace
}  // namespace ignite_strategy

#define IGNITE_STRATEGY_EXPORT extern "C" __attribute__((visibility("default")))

// Called by TensorFlow when it loads this library as a filesystem plugin.
IGNITE_STRATEGY_EXPORT void TF_InitPlugin(ignite_strategy::tf_filesystem::PluginInfo* info) {
  using namespace ignite_strategy;
  info->plugin_memory_allocate = Allocate;
  info->plugin_memory_free = Free;
  info->num_schemes = 1;
  auto* ops =
      NewTable<tf_filesystem::PluginOps>();  // zero: version 0 of each interface, and no memory regions
  ops->scheme = CopyOf(kScheme);
  ops->filesystem_ops_size = sizeof(FilesystemOps);
  ops->filesystem_ops = TreeTable();
  ops->random_access_file_ops_size = sizeof(RandomAccessFileOps);
  ops->random_access_file_ops = ReadingTable();
  ops->writable_file_ops_size = sizeof(WritableFileOps);
  ops->writable_file_ops = WritingTable();
  info->ops = ops;
}

// The addresses that igfs:/// means while a resolver is open: "host:port,host:port", "" for none, and their
// security settings. Returns null, or what is wrong with them, valid until the thread's next call.
IGNITE_STRATEGY_EXPORT const char* ignite_strategy_set_default_cluster(const char* addresses,
                                                                       const char* security,
                                                                       std::size_t security_size) {
  static thread_local std::string problem;
  try {
    ignite_strategy::igfs::SetDefaultCluster(addresses, std::string(security, security_size));
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
