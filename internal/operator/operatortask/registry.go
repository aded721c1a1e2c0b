package operatortask

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/collection"
	"druid.internal/druid/internal/operator/operatortask/exclusion"
	"druid.internal/druid/internal/operator/operatortask/extension"
	"druid.internal/druid/internal/operator/operatortask/snapshot"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// Types are the types of tasks. docs/recipes/add-a-task-type.md says what else another one needs.
func Types() []task.Type {
	return []task.Type{snapshot.Type(), extension.Type(), collection.Type(), exclusion.Type()}
}

// typeOf is the row of a type; false: there is none.
func typeOf(name druidv1alpha1.TaskType) (task.Type, bool) {
	for _, t := range Types() {
		if t.Name == name {
			return t, true
		}
	}
	return task.Type{}, false
}
