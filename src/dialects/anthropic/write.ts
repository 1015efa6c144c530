/** A dialogue as a request to an Anthropic-style upstream. */
import type { Dialogue, Tool } from '../../core/dialogue.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { leaveOut } from '../leave-out.ts';
import { inputSchema, outputSchema } from './clean-schema.ts';
import { isForced, thinkingFor } from './thinking.ts';
import { type Block, cacheField } from './write-blocks.ts';
import { writeTurns } from './write-turns.ts';

export const defaultVersion = '2023-06-01';

/** Where nobody knows what the model can give: enough for an answer, and every model has it. */
const outputTokensDefault = 8_192;

/** Anthropic has no words for these, by the names that clients give them. */
const unspoken = [
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'n',
];

export function writeMessages(asked: Dialogue, target: Target): UpstreamRequest {
  const refused = [...unspoken, ...(target.quirks.drop_params ?? [])];
  const spoken = leaveOut(asked, refused);
  const maxTokens = outputLimit(spoken.dialogue, target);
  const words = thinkingFor(spoken.dialogue, target, maxTokens);
  const { dialogue, dropped: unsampled } = leaveOut(
    spoken.dialogue,
    refusedSampling(spoken.dialogue, words.isOn),
  );
  const dropped = new Set([...spoken.dropped, ...unsampled]);
  if (words.isDropped) dropped.add('reasoning');
  const { system, messages } = writeTurns(dialogue, target, words.isOn, dropped);
  const { instruction, format } = writeJson(dialogue, target);
  const instructions = instruction ? [...system, instruction] : system;
  const outputConfig = {
    ...(words.effort ? { effort: words.effort } : {}),
    ...(format ? { format } : {}),
  };
  const body = {
    model: target.upstreamModel,
    max_tokens: maxTokens,
    ...(instructions.length > 0 ? { system: instructions } : {}),
    messages,
    ...writeTools(dialogue, target, dropped),
    ...(words.thinking ? { thinking: words.thinking } : {}),
    ...(Object.keys(outputConfig).length > 0 ? { output_config: outputConfig } : {}),
    ...writeSampling(dialogue, dropped),
    ...(dialogue.user ? { metadata: { user_id: dialogue.user } } : {}),
    ...(dialogue.stream ? { stream: true } : {}),
  };
  return {
    path: '/messages',
    headers: { 'anthropic-version': defaultVersion },
    body: JSON.stringify(body),
    dropped: [...dropped],
  };
}

function outputLimit({ outputTokensMax: asked }: Dialogue, target: Target): number {
  const { outputTokensMax: affordable, modelOutputTokensMax: most } = target;
  const wanted = affordable ?? asked ?? most ?? outputTokensDefault;
  return Math.min(wanted, most ?? wanted);
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
    ...(temperature === undefined ? {} : { temperature: Math.min(temperature, 1) }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(stops.length > 0 ? { stop_sequences: stops } : {}),
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
  return {
    tools: tools.map(writeTool),
    ...(isSaid ? { tool_choice: writeChoice(choice, parallel) } : {}),
  };
}

function writeChoice(choice: Dialogue['toolChoice'], parallel: object): object {
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallel };
  if (choice === null || choice === 'auto') return { type: 'auto', ...parallel };
  return { type: 'tool', name: choice.name, ...parallel };
}

function writeTool(tool: Tool): object {
  const { name, description, parameters, strict } = tool;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: inputSchema(parameters),
    ...(strict === undefined ? {} : { strict }),
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
