import { isNonEmptyString } from '../../../core/json.ts';
import type { AnyTool } from './tool-changes.ts';

// Tools that Anthropic defines and the client runs. Claude knows their schemas, so requests contain
// only a type. Other models get the published schema as a function, and the client gets the call
// under the tool's own name.

export interface FunctionDefinition {
  readonly name: string;
  readonly description: string;
  readonly input_schema: Readonly<Record<string, unknown>>;
}

/** The fields of each type that aren't sent, because the schema or the description covers them. */
export const clientRunFields: ReadonlySet<string> = new Set([
  'display_width_px',
  'display_height_px',
  'display_number',
  'enable_zoom',
  // Limits what the client returns, so the model needn't know it.
  'max_characters',
]);

const anyClientRunType =
  /^(?:bash|text_editor|memory|computer|computer_toolset|browser_toolset)_\d+$/;

/** Returns true for a client-run tool whose schema is unknown, such as that of a new version. */
export function isUnknownClientRunTool(tool: AnyTool): boolean {
  return anyClientRunType.test(tool.type ?? '') && definitionOf(tool) === undefined;
}

/** Returns the function for a tool that the client runs; undefined for other tools. */
export function definitionOf(tool: AnyTool): FunctionDefinition | undefined {
  const { type, name } = tool;
  const define = type && Object.hasOwn(definitions, type) ? definitions[type] : undefined;
  const definition = define?.(tool);
  return definition && { ...definition, name: isNonEmptyString(name) ? name : definition.name };
}

type Fields = Readonly<Record<string, unknown>>;

const text = (description: string) => ({ type: 'string', description });
const integer = (description: string) => ({ type: 'integer', description });
const integers = (count: number, description: string) => ({
  type: 'array',
  items: { type: 'integer' },
  minItems: count,
  maxItems: count,
  description,
});
const commands = (...names: string[]) => ({
  type: 'string',
  enum: names,
  description: 'The command to run.',
});
const object = (properties: Fields, ...required: string[]) => ({
  type: 'object',
  properties,
  required,
});

const bash = (): FunctionDefinition => ({
  name: 'bash',
  description:
    'Runs a command in a Bash session that persists between calls, and returns its output. Pass ' +
    'either `command` or `restart`.',
  input_schema: object({
    command: text('The command to run. Required unless `restart` is true.'),
    restart: { type: 'boolean', description: 'True to restart the session.' },
  }),
});

const fileFields = {
  file_text: text('For `create`: the content of the file.'),
  old_str: text('For `str_replace`: the text to replace. It must occur exactly once.'),
  insert_line: integer('For `insert`: the line after which to insert; 0 for the start.'),
  view_range: integers(2, 'For `view`: the first and last line, from 1; -1 for the last line.'),
};

/** Before April 2025, the editor could undo an edit and inserted `new_str`. */
const olderEditor = (): FunctionDefinition => ({
  name: 'str_replace_editor',
  description: 'Views, creates, and edits text files. `view` lists a folder.',
  input_schema: object(
    {
      command: commands('view', 'create', 'str_replace', 'insert', 'undo_edit'),
      path: text('The absolute path of the file or folder.'),
      ...fileFields,
      new_str: text('For `str_replace`: the new text. For `insert`: the text to insert.'),
    },
    'command',
    'path',
  ),
});

const editor = (): FunctionDefinition => ({
  name: 'str_replace_based_edit_tool',
  description: 'Views, creates, and edits text files. `view` lists a folder.',
  input_schema: object(
    {
      command: commands('view', 'create', 'str_replace', 'insert'),
      path: text('The absolute path of the file or folder.'),
      ...fileFields,
      new_str: text('For `str_replace`: the new text.'),
      insert_text: text('For `insert`: the text to insert.'),
    },
    'command',
    'path',
  ),
});

const memory = (): FunctionDefinition => ({
  name: 'memory',
  description:
    'Reads and changes files in /memories, which persist between conversations. View /memories ' +
    'before you start a task, and save your progress there.',
  input_schema: object(
    {
      command: commands('view', 'create', 'str_replace', 'insert', 'delete', 'rename'),
      path: text('The path of the file or folder, for all commands except `rename`.'),
      ...fileFields,
      new_str: text('For `str_replace`: the new text.'),
      insert_text: text('For `insert`: the text to insert.'),
      old_path: text('For `rename`: the current path.'),
      new_path: text('For `rename`: the new path.'),
    },
    'command',
  ),
});

const firstActions = [
  ...['key', 'type', 'mouse_move', 'left_click', 'left_click_drag', 'right_click'],
  ...['middle_click', 'double_click', 'screenshot', 'cursor_position'],
];
const laterActions = [
  ...firstActions,
  ...['hold_key', 'left_mouse_down', 'left_mouse_up', 'triple_click', 'scroll', 'wait'],
];
const firstFields = {
  coordinate: integers(2, 'The x and y of the target, in pixels from the top left.'),
  text: text('For `type`: the text. For `key` and `hold_key`: the keys, such as `ctrl+s`.'),
};
const laterFields = {
  ...firstFields,
  start_coordinate: integers(2, 'For `left_click_drag`: the x and y at which the drag starts.'),
  scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
  scroll_amount: integer('For `scroll`: the number of clicks of the wheel.'),
  duration: { type: 'number', description: 'For `hold_key` and `wait`: seconds.' },
};
const zoomFields = { region: integers(4, 'For `zoom`: the x0, y0, x1, and y1 to enlarge.') };

function computer(tool: Fields, actions: readonly string[], fields: Fields): FunctionDefinition {
  const { display_width_px: width, display_height_px: height } = tool;
  const size = Number.isInteger(width) && Number.isInteger(height);
  return {
    name: 'computer',
    description:
      'Controls a computer with its mouse and keyboard, and takes screenshots.' +
      (size ? ` The screen is ${width} pixels wide and ${height} pixels high.` : ''),
    input_schema: object({ action: { type: 'string', enum: actions }, ...fields }, 'action'),
  };
}

function computerWithZoom(tool: Fields): FunctionDefinition {
  return tool.enable_zoom === true
    ? computer(tool, [...laterActions, 'zoom'], { ...laterFields, ...zoomFields })
    : computer(tool, laterActions, laterFields);
}

/** The published versions. */
const definitions: Readonly<Record<string, (tool: Fields) => FunctionDefinition>> = {
  bash_20241022: bash,
  bash_20250124: bash,
  text_editor_20241022: olderEditor,
  text_editor_20250124: olderEditor,
  text_editor_20250429: editor,
  text_editor_20250728: editor,
  memory_20250818: memory,
  computer_20241022: (tool) => computer(tool, firstActions, firstFields),
  computer_20250124: (tool) => computer(tool, laterActions, laterFields),
  computer_20251124: computerWithZoom,
};
