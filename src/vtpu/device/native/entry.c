/* The stock way in: a program that opens a TPU's shared object by its path finds its table here.
 *
 * The table comes from Python, so that the file may be any copy of the core: the one that answers
 * is that of the installed package.
 */
#include <Python.h>

#include "core.h"

static const PJRT_Api *table_from_python(void) {
  PyObject *module = PyImport_ImportModule("vtpu.stock");
  PyObject *capsule = module ? PyObject_CallMethod(module, "function_table", NULL) : NULL;
  const PJRT_Api *table = capsule ? PyCapsule_GetPointer(capsule, "pjrt_c_api") : NULL;
  if (!table) PyErr_Print();
  Py_XDECREF(capsule);
  Py_XDECREF(module);
  return table;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void) {
  if (!Py_IsInitialized()) return vt_api(); /* which says that Python is not there */
  PyGILState_STATE state = PyGILState_Ensure();
  const PJRT_Api *table = table_from_python();
  PyGILState_Release(state);
  return table ? table : vt_api();
}
