import type { Prompt, Tool, Turn } from '../../../core/prompt.ts';
import { enforcesStrict, outputSchema, toolSchema } from '../../anthropic/upstream/json-schema.ts';
import { toSupportedPrompt, writeLimits } from '../../anthropic/upstream/parameters.ts';
import { toAlternatingTurns } from '../../anthropic/upstream/request.ts';
import type { Target, UpstreamRequest } from '../../dialect.ts';
import { jsonInstruction } from '../../normalize/requests/generation-options.ts';
import { callsIn } from '../../normalize/requests/tools.ts';
import { type Block, ContentWriter } from './content.ts';
import { stopSequencePaths } from './read.ts';

/** A dialogue as a request to Bedrock's Converse. */

/** Parameters that Anthropic has and Bedrock lacks: it marks caches by points between parts. */
const alsoUnsupported = ['parallel_tool_calls', 'user', 'cache_control'];

export function writeRequest(original: Prompt, target: Target): UpstreamRequest {
  // Models that never think take `temperature` and `top_p` together.
  const isPicky = target.thinking !== null;
  const result = toSupportedPrompt(original, target, {
    alsoUnsupported,
    isSamplingExclusive: isPicky,
  });
  const { prompt, reasoning, limit, outputTokensMax, dropped } = result;
  const writer = new ContentWriter(target, dropped);
  const { system, messages } = writeTurns(prompt.turns, writer, target, reasoning.isOn);
  const { instruction, outputConfig } = writeJson(prompt, target);
  const instructions = instruction ? [...system, { text: instruction }] : system;
  const body = {
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    inferenceConfig: writeConfig(prompt, reasoning.isOn ? outputTokensMax : limit, dropped),
    toolConfig: writeTools(prompt, writer, target, dropped),
    outputConfig,
    additionalModelRequestFields: filled({
      top_k: prompt.sampling.topK,
      thinking: reasoning.thinking,
      ...effortField(reasoning, target),
    }),
    additionalModelResponseFieldPaths: prompt.stop.length > 0 ? stopSequencePaths : undefined,
  };
  const model = encodeURIComponent(target.upstreamModel.toWellFormed());
  return {
    path: `/model/${model}/${prompt.stream ? 'converse-stream' : 'converse'}`,
    body: JSON.stringify(body),
    dropped: [...dropped],
  };
}

function writeConfig(
  prompt: Prompt,
  maxTokens: number | null,
  dropped: Set<string>,
): object | undefined {
  const { temperature, stops } = writeLimits(prompt, dropped);
  return filled({
    maxTokens: maxTokens ?? undefined,
    temperature,
    topP: prompt.sampling.topP,
    stopSequences: stops,
  });
}

/** Models whose thinking is set by efforts alone take them under OpenAI's name. */
function effortField({ effort }: { effort?: string | undefined }, { thinking }: Target): object {
  if (effort === undefined) return {};
  return thinking === 'effort' ? { reasoning_effort: effort } : { output_config: { effort } };
}

/** Only newer models can be held to a schema; all others get an instruction instead. */
function writeJson({ json }: Prompt, { quirks }: Target) {
  if (json === null) return {};
  if (json.schema === null || quirks.json_schema !== 'native') {
    return { instruction: jsonInstruction(json.schema) };
  }
  const { name, description } = json;
  const schema = JSON.stringify(outputSchema(json.schema));
  const jsonSchema = { schema, name, description };
  return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
}

/** The fields, or undefined if none of them is set. */
function filled(fields: Readonly<Record<string, unknown>>): object | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}

/** The turns of a dialogue as Bedrock's `system` and `messages`. */

function writeTurns(
  turns: readonly Turn[],
  writer: ContentWriter,
  target: Target,
  isThinking: boolean,
) {
  return toAlternatingTurns<Block>(turns, {
    text: (part) => writer.text(part),
    assistantPart: (part) => writer.assistantPart(part),
    userPart: (part) => writer.userPart(part),
    arrange: (content) => introduceDocuments(resultsFirst(content)),
    allowsInlineSystem: false,
    needsUserTurn: isThinking || target.thinking === 'adaptive',
  });
}

/** Puts all results of one turn first, each with the cache point that follows it. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const isOfResult = content.map(
    (block, at) =>
      'toolResult' in block || ('cachePoint' in block && 'toolResult' in (content[at - 1] ?? {})),
  );
  const results = content.filter((_, at) => isOfResult[at]);
  return [...results, ...content.filter((_, at) => !isOfResult[at])];
}

/** Bedrock refuses a document without any text beside it. */
function introduceDocuments(content: readonly Block[]): readonly Block[] {
  if (!content.some((block) => 'document' in block)) return content;
  if (content.some((block) => 'text' in block)) return content;
  return [...content, { text: 'See the attached document.' }];
}

/** The tools of a dialogue as Bedrock's `toolConfig`. */

function writeTools(
  prompt: Prompt,
  writer: ContentWriter,
  { quirks }: Target,
  dropped: Set<string>,
): object | undefined {
  const { toolChoice } = prompt;
  const called = [...new Set(callsIn(prompt.turns).map(({ name }) => name))];
  const forbidsCalls = toolChoice === 'none';
  // Bedrock has no word for `none`, but a model without tools calls none.
  if (forbidsCalls && called.length === 0) return undefined;
  // Bedrock refuses a conversation with calls but without tools, even if the client sent no tools.
  const tools: readonly Tool[] =
    prompt.tools.length > 0 ? prompt.tools : called.map((name) => ({ name, parameters: null }));
  if (tools.length === 0) return undefined;
  if (forbidsCalls && prompt.tools.length > 0) dropped.add('tool_choice');
  // Strictness came to Bedrock with structured output, and to the same models.
  const isStrict = enforcesStrict(tools, quirks.json_schema === 'native', dropped);
  return {
    tools: tools.flatMap((tool) => writer.marked({ toolSpec: writeTool(tool, isStrict) }, tool)),
    toolChoice: writeChoice(toolChoice),
  };
}

function writeTool(tool: Tool, isStrict: boolean): object {
  const { name, description, strict } = tool;
  // Nova refuses a schema with `$schema` or `$id`.
  const { $schema: _, $id: __, ...json } = toolSchema(tool, isStrict);
  return {
    name,
    description: description || undefined,
    inputSchema: { json },
    strict: (isStrict && strict) || undefined,
  };
}

/** Not every model takes a choice, so `auto`, which is the default, is not sent. */
function writeChoice(choice: Prompt['toolChoice']): object | undefined {
  if (choice === 'required') return { any: {} };
  return typeof choice === 'object' && choice ? { tool: { name: choice.name } } : undefined;
}
