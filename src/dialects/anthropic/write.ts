/** A dialogue as a request to an Anthropic-style upstream. */
import type { Dialogue, Tool } from '../../core/dialogue.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { inputSchema, outputSchema } from './clean-schema.ts';
import { defaultVersion, messagesAt } from './hosts.ts';
import { mayBeStrict, strictSchema } from './strict-tools.ts';
import { isForced, thinkingFor } from './thinking.ts';
import { type Block, cacheField } from './write-blocks.ts';
import { writeTurns } from './write-turns.ts';

/** Where nobody knows what the model can give: enough for an answer, and every model has it. */
export const outputTokensDefault = 8_192;

/** Anthropic has no words for these, by the names that clients give them. */
export const unspoken = [
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'n',
];

export function writeMessages(asked: Dialogue, target: Target): UpstreamRequest {
  const spoken = leaveOut(asked, [...unspoken, ...(target.quirks.drop_params ?? [])]);
  const maxTokens =
    outputLimit(asked.outputTokensMax, target) ??
    target.modelOutputTokensMax ??
    outputTokensDefault;
  const { thinking, effort, isOn, isDropped } = thinkingFor(spoken.dialogue, target, maxTokens);
  const sampled = leaveOut(spoken.dialogue, refusedSampling(spoken.dialogue, isOn));
  const { dialogue } = sampled;
  const dropped = new Set([...spoken.dropped, ...sampled.dropped]);
  if (isDropped) dropped.add('reasoning');
  const { system, messages } = writeTurns(dialogue, target, isOn, dropped);
  const { instruction, format } = writeJson(dialogue, target);
  const instructions = instruction ? [...system, instruction] : system;
  const version = { version: defaultVersion, betas: '' };
  const { path, headers, fields } = messagesAt(target, dialogue.stream, version);
  const body = {
    ...fields,
    max_tokens: maxTokens,
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    ...writeTools(dialogue, target, dropped),
    thinking,
    output_config: effort || format ? { effort, format } : undefined,
    ...writeSampling(dialogue, dropped),
    metadata: dialogue.user ? { user_id: dialogue.user } : undefined,
    stream: dialogue.stream ? true : undefined,
  };
  return { path, headers, body: JSON.stringify(body), dropped: [...dropped] };
}

/** No model samples while it thinks, and the newer ones want one of the two at any time. */
function refusedSampling({ sampling }: Dialogue, isThinking: boolean): readonly string[] {
  if (isThinking) return ['temperature', 'top_p', 'top_k'];
  return sampling.temperature === undefined ? [] : ['top_p'];
}

function writeSampling({ sampling, stop }: Dialogue, dropped: Set<string>): object {
  const { temperature, topP, topK } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return {
    // OpenAI's scale goes on to 2.
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    top_p: topP,
    top_k: topK,
    stop_sequences: stops.length > 0 ? stops : undefined,
  };
}

function writeTools(dialogue: Dialogue, { quirks }: Target, dropped: Set<string>): object {
  const { tools, toolChoice, parallelTools } = dialogue;
  if (tools.length === 0) return {};
  const isRefused = isForced(toolChoice) && quirks.drop_params?.includes('tool_choice');
  if (isRefused) dropped.add('tool_choice');
  const choice = isRefused ? 'auto' : toolChoice;
  const parallel = parallelTools === false ? { disable_parallel_tool_use: true } : {};
  const isSaid = choice !== null || parallelTools === false;
  const isHeld = quirks.json_schema !== 'instruct' && mayBeStrict(tools);
  if (!isHeld && tools.some(({ strict }) => strict)) dropped.add('strict');
  return {
    tools: tools.map((tool) => writeTool(tool, isHeld)),
    tool_choice: isSaid ? writeChoice(choice, parallel) : undefined,
  };
}

function writeChoice(choice: Dialogue['toolChoice'], parallel: object): object {
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallel };
  if (choice === null || choice === 'auto') return { type: 'auto', ...parallel };
  return { type: 'tool', name: choice.name, ...parallel };
}

function writeTool(tool: Tool, mayHold: boolean): object {
  const { name, description, parameters, strict } = tool;
  return {
    name,
    description,
    input_schema: strict && mayHold ? strictSchema(tool) : inputSchema(parameters),
    strict: mayHold ? strict : undefined,
    ...cacheField(tool),
  };
}

function writeJson({ json }: Dialogue, { quirks }: Target) {
  if (json === null) return {};
  const only = 'Answer only with a JSON object, without any other text';
  if (json.schema === null) return { instruction: textBlock(`${only}.`) };
  if (quirks.json_schema === 'instruct') {
    const schema = JSON.stringify(json.schema);
    return { instruction: textBlock(`${only}. It satisfies this JSON Schema:\n${schema}`) };
  }
  return { format: { type: 'json_schema', schema: outputSchema(json.schema) } };
}

function textBlock(text: string): Block {
  return { type: 'text', text };
}
