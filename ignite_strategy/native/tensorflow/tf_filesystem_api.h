// The part of TensorFlow's interface for filesystem plugins, declared here so that building needs no
// TensorFlow.
//
// Layouts and signatures are those of tensorflow/c/experimental/filesystem/filesystem_interface.h, interface
// version 0 of all tables; tests/unit/test_tf_filesystem_api.py compares them with the headers inside an
// installed TensorFlow. Function pointers that this plugin never sets are `Unused`.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_FILESYSTEM_API_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_FILESYSTEM_API_H_

#include <cstddef>
#include <cstdint>

#ifndef IGNITE_STRATEGY_WITH_TENSORFLOW_HEADERS
typedef struct TF_Status TF_Status;
#endif

namespace ignite_strategy {
namespace tf_filesystem {

using Unused = void (*)();

// The plugin's own data, opaque to TensorFlow.
struct RandomAccessFile {
  void* plugin_file;
};
struct WritableFile {
  void* plugin_file;
};
struct Filesystem {
  void* plugin_filesystem;
};

struct FileStatistics {
  std::int64_t length;
  std::int64_t mtime_nsec;
  bool is_directory;
};

struct RandomAccessFileOps {
  void (*cleanup)(RandomAccessFile* file);
  std::int64_t (*read)(const RandomAccessFile* file, std::uint64_t offset, std::size_t n, char* buffer,
                       TF_Status* status);
};

struct WritableFileOps {
  void (*cleanup)(WritableFile* file);
  void (*append)(const WritableFile* file, const char* buffer, std::size_t n, TF_Status* status);
  std::int64_t (*tell)(const WritableFile* file, TF_Status* status);
  void (*flush)(const WritableFile* file, TF_Status* status);
  void (*sync)(const WritableFile* file, TF_Status* status);
  void (*close)(const WritableFile* file, TF_Status* status);
};

struct FilesystemOps {
  void (*init)(Filesystem* filesystem, TF_Status* status);
  void (*cleanup)(Filesystem* filesystem);
  void (*new_random_access_file)(const Filesystem* filesystem, const char* path, RandomAccessFile* file,
                                 TF_Status* status);
  void (*new_writable_file)(const Filesystem* filesystem, const char* path, WritableFile* file,
                            TF_Status* status);
  void (*new_appendable_file)(const Filesystem* filesystem, const char* path, WritableFile* file,
                              TF_Status* status);
  Unused new_read_only_memory_region_from_file;
  void (*create_dir)(const Filesystem* filesystem, const char* path, TF_Status* status);
  void (*recursively_create_dir)(const Filesystem* filesystem, const char* path, TF_Status* status);
  void (*delete_file)(const Filesystem* filesystem, const char* path, TF_Status* status);
  void (*delete_dir)(const Filesystem* filesystem, const char* path, TF_Status* status);
  void (*delete_recursively)(const Filesystem* filesystem, const char* path, std::uint64_t* undeleted_files,
                             std::uint64_t* undeleted_dirs, TF_Status* status);
  void (*rename_file)(const Filesystem* filesystem, const char* src, const char* dst, TF_Status* status);
  void (*copy_file)(const Filesystem* filesystem, const char* src, const char* dst, TF_Status* status);
  void (*path_exists)(const Filesystem* filesystem, const char* path, TF_Status* status);
  bool (*paths_exist)(const Filesystem* filesystem, char** paths, int num_files, TF_Status** statuses);
  void (*stat)(const Filesystem* filesystem, const char* path, FileStatistics* stats, TF_Status* status);
  bool (*is_directory)(const Filesystem* filesystem, const char* path, TF_Status* status);
  std::int64_t (*get_file_size)(const Filesystem* filesystem, const char* path, TF_Status* status);
  char* (*translate_name)(const Filesystem* filesystem, const char* uri);
  int (*get_children)(const Filesystem* filesystem, const char* path, char*** entries, TF_Status* status);
  int (*get_matching_paths)(const Filesystem* filesystem, const char* glob, char*** entries,
                            TF_Status* status);
  Unused flush_caches;
  Unused start_transaction, end_transaction, add_to_transaction, get_transaction_for_path,
      get_or_start_transaction_for_path, decode_transaction_token;
  Unused get_filesystem_configuration, set_filesystem_configuration, get_filesystem_configuration_option,
      set_filesystem_configuration_option, get_filesystem_configuration_keys;
};

// For each table: interface versions, size, pointer.
struct PluginOps {
  char* scheme;
  int filesystem_ops_abi;
  int filesystem_ops_api;
  std::size_t filesystem_ops_size;
  FilesystemOps* filesystem_ops;
  int random_access_file_ops_abi;
  int random_access_file_ops_api;
  std::size_t random_access_file_ops_size;
  RandomAccessFileOps* random_access_file_ops;
  int writable_file_ops_abi;
  int writable_file_ops_api;
  std::size_t writable_file_ops_size;
  WritableFileOps* writable_file_ops;
  int read_only_memory_region_ops_abi;
  int read_only_memory_region_ops_api;
  std::size_t read_only_memory_region_ops_size;
  void* read_only_memory_region_ops;
};

struct PluginInfo {
  std::size_t num_schemes;
  PluginOps* ops;
  void* (*plugin_memory_allocate)(std::size_t size);
  void (*plugin_memory_free)(void* memory);
};

}  // namespace tf_filesystem
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_FILESYSTEM_API_H_
