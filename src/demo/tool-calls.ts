/** Decides which tools the demo calls, and with which arguments. */
import { invalidRequest } from '../core/errors.ts';
import { fieldsOf, isObject } from '../core/json.ts';
import { sampleSchema } from './schema-sample.ts';

export interface Tool {
  readonly name: string;
  readonly parameters: unknown;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** OpenAI's own limit. */
const toolsMax = 128;
/** The maximum number of calls, for messages that mention many tools. */
const callsMax = 16;

/** Reads function tools. Other tools are ignored. */
export function readTools(value: unknown): Tool[] {
  if (value === null || value === undefined) return [];
  if (!Array.isArray(value) || value.length > toolsMax) {
    throw invalidRequest(`'tools' must be an array of at most ${toolsMax} tools.`, 'tools');
  }
  return value.flatMap((tool: unknown, index) => {
    if (!isObject(tool) || tool.type !== 'function') return [];
    const described = tool.function;
    if (!isObject(described) || typeof described.name !== 'string' || described.name === '') {
      const path = `tools[${index}].function.name`;
      throw invalidRequest(`'${path}' is required.`, path);
    }
    return [{ name: described.name, parameters: described.parameters }];
  });
}

export function readToolChoice(value: unknown, tools: readonly Tool[]): ToolChoice {
  if (value === null || value === undefined) return 'auto';
  if (value === 'none' || value === 'auto' || value === 'required') return value;
  const name = isObject(value) && isObject(value.function) ? value.function.name : undefined;
  if (typeof name === 'string' && tools.some((tool) => tool.name === name)) return { name };
  throw invalidRequest(
    "'tool_choice' must be none, auto, required, or the name of one of 'tools'.",
    'tool_choice',
  );
}

interface ToolContext {
  readonly tools: readonly Tool[];
  readonly choice: ToolChoice;
  readonly isParallel: boolean;
  /** The last message if it is the user's, or null. */
  readonly userText: string | null;
  /** Names of the tools called earlier in the prompt. */
  readonly called: readonly string[];
}

export function pickTools({ tools, choice, isParallel, userText, called }: ToolContext): Tool[] {
  if (choice === 'none') return [];
  if (typeof choice === 'object') return tools.filter((tool) => tool.name === choice.name);
  const mentioned =
    userText === null ? [] : tools.filter(({ name }) => isMentioned(userText, name));
  const picked =
    choice === 'required' && mentioned.length === 0 ? nextTool(tools, called) : mentioned;
  return picked.slice(0, isParallel ? callsMax : 1);
}

/**
 * Picks the first tool that was not called yet, so that an agent that requires a tool call at every
 * step eventually calls its final-answer tool instead of looping.
 */
function nextTool(tools: readonly Tool[], called: readonly string[]): Tool[] {
  const fresh = tools.filter((tool) => !called.includes(tool.name));
  return [...fresh, ...tools].slice(0, 1);
}

/**
 * Matches the last word of a tool's name, if it has at least 4 letters: people ask for the weather,
 * not for `get_weather`.
 */
const lastWord = /\p{Lu}?[\p{Ll}\p{N}]{4,}$/u;

function isMentioned(text: string, name: string): boolean {
  return [name, ...(lastWord.exec(name) ?? [])].some((word) => mentions(text, word));
}

/** Returns whether the name is a separate word: "forget" must not call a tool `get`. */
function mentions(text: string, name: string): boolean {
  const nameCharacter = /[\p{L}\p{N}_-]/u;
  const [lowerText, lowerName] = [text.toLowerCase(), name.toLowerCase()];
  let at = lowerText.indexOf(lowerName);
  while (at !== -1) {
    const end = at + lowerName.length;
    const neighbors = [lowerText.slice(Math.max(0, at - 1), at), lowerText.slice(end, end + 1)];
    if (!neighbors.some((character) => nameCharacter.test(character))) return true;
    at = lowerText.indexOf(lowerName, end);
  }
  return false;
}

/** Creates a call. `seed` makes IDs differ between turns, because results refer to them. */
export function callTool(tool: Tool, seed: string, index: number): ToolCall {
  const value = tool.parameters === undefined ? {} : sampleSchema(tool.parameters);
  return {
    id: `call_demo_${seed}_${index}`,
    name: tool.name,
    arguments: JSON.stringify(fieldsOf(value)),
  };
}
