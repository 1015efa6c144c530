/** A dialogue as a request to an Anthropic-style upstream. */
import type { Dialogue, Tool } from '../../core/dialogue.ts';
import { cacheField } from '../ask/cache-marks.ts';
import { jsonInstruction } from '../ask/json-wish.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { outputSchema } from './clean-schema.ts';
import { defaultVersion, messagesAt } from './hosts.ts';
import { sayable, writeLimits } from './sayable.ts';
import { isHeldTo, toolSchema } from './strict-tools.ts';
import type { Block } from './write-blocks.ts';
import { writeTurns } from './write-turns.ts';

export function writeMessages(asked: Dialogue, target: Target): UpstreamRequest {
  const { dialogue, reasoning, outputTokensMax, dropped } = sayable(asked, target);
  const { system, messages } = writeTurns(dialogue, target, reasoning.isOn, dropped);
  const { effort } = reasoning;
  const { instruction, format } = writeJson(dialogue, target);
  const instructions = instruction ? [...system, instruction] : system;
  const version = { version: defaultVersion, betas: '' };
  const { path, headers, fields } = messagesAt(target, dialogue.stream, version);
  const body = {
    ...fields,
    max_tokens: outputTokensMax,
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    ...writeTools(dialogue, target, dropped),
    thinking: reasoning.thinking,
    output_config: effort || format ? { effort, format } : undefined,
    ...writeSampling(dialogue, dropped),
    metadata: dialogue.user ? { user_id: dialogue.user } : undefined,
    ...cacheField(dialogue),
    stream: dialogue.stream ? true : undefined,
  };
  return { path, headers, body: JSON.stringify(body), dropped: [...dropped] };
}

function writeSampling(dialogue: Dialogue, dropped: Set<string>): object {
  const { temperature, stops } = writeLimits(dialogue, dropped);
  const { topP, topK } = dialogue.sampling;
  return { temperature, top_p: topP, top_k: topK, stop_sequences: stops };
}

function writeTools(dialogue: Dialogue, { quirks }: Target, dropped: Set<string>): object {
  const { tools, toolChoice, parallelTools } = dialogue;
  if (tools.length === 0) return {};
  const parallel = parallelTools === false ? { disable_parallel_tool_use: true } : {};
  const isSaid = toolChoice !== null || parallelTools === false;
  const isHeld = isHeldTo(tools, quirks.json_schema !== 'instruct', dropped);
  return {
    tools: tools.map((tool) => writeTool(tool, isHeld)),
    tool_choice: isSaid ? writeChoice(toolChoice, parallel) : undefined,
  };
}

function writeChoice(choice: Dialogue['toolChoice'], parallel: object): object {
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallel };
  if (choice === null || choice === 'auto') return { type: 'auto', ...parallel };
  return { type: 'tool', name: choice.name, ...parallel };
}

function writeTool(tool: Tool, isHeld: boolean): object {
  const { name, description, strict } = tool;
  return {
    name,
    description,
    input_schema: toolSchema(tool, isHeld),
    strict: isHeld ? strict : undefined,
    ...cacheField(tool),
  };
}

function writeJson({ json }: Dialogue, { quirks }: Target) {
  if (json === null) return {};
  if (json.schema === null || quirks.json_schema === 'instruct') {
    const instruction: Block = { type: 'text', text: jsonInstruction(json.schema) };
    return { instruction };
  }
  return { format: { type: 'json_schema', schema: outputSchema(json.schema) } };
}
