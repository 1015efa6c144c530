/** Leaves out tools that cost more than the endpoint's price, wherever a request has them. */
import { objectsIn } from '../../core/json.ts';
import { withoutPaidTools } from '../ask/account/priced-apart.ts';
import type { Edits } from '../ask/body/edit-body.ts';
import type { Target } from '../dialect.ts';
import type { ResponsesBody } from './request-schema.ts';
import { toolLists } from './tool-schema.ts';

type Choice = ResponsesBody['tool_choice'];

interface Left {
  readonly input: ResponsesBody['input'];
  readonly dropped: readonly string[];
}

/** Returns the input without such tools; changes of `tools` and `tool_choice` go into `edits`. */
export function leaveOutPaidTools(body: ResponsesBody, target: Target, edits: Edits): Left {
  const { tools, lost, dropped } = withoutPaidTools(body.tools ?? [], target);
  const names = [...dropped];
  const input = withoutAdded(body.input, target, names);
  if (names.length === 0) return { input, dropped: names };
  if (lost.length > 0) edits.tools = tools.length > 0 ? tools : undefined;
  const isAnyLeft = toolLists({ tools: [...tools], input }).some((list) => list.tools.length > 0);
  const choice = isAnyLeft ? leftChoice(body.tool_choice, target) : undefined;
  if (choice !== body.tool_choice) edits.tool_choice = choice;
  return { input, dropped: names };
}

/** Items with tools in them: those that Codex adds, and the results of its search for tools. */
const bringTools: readonly unknown[] = ['additional_tools', 'tool_search_output'];

function withoutAdded(
  input: ResponsesBody['input'],
  target: Target,
  names: string[],
): ResponsesBody['input'] {
  if (typeof input === 'string') return input;
  let left = input;
  for (const [at, item] of input.entries()) {
    if (!bringTools.includes(item.type) || !('tools' in item)) continue;
    const given = objectsIn(item.tools);
    const { tools, dropped } = withoutPaidTools(given, target, `input[${at}].tools`);
    if (dropped.length === 0) continue;
    const rest = { ...item, tools };
    left = left.with(at, rest);
    names.push(...dropped);
  }
  return left;
}

/** The tool choice; undefined if the tool it names was left out. */
function leftChoice(choice: Choice, target: Target): Choice {
  if (!choice || typeof choice === 'string') return choice;
  if (withoutPaidTools([choice], target).lost.length > 0) return undefined;
  const { tools, lost } = withoutPaidTools(choice.tools ?? [], target);
  if (lost.length === 0) return choice;
  return tools.length > 0 ? { ...choice, tools: [...tools] } : undefined;
}
