/**
 * A search for tools that the client does itself. Codex keeps those of its MCP servers back until
 * the model asks for them, and then sends along what it found.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { fieldsOf, isText } from '../../core/json.ts';
import { optional } from '../../core/schema-builders.ts';
import { parseArguments } from '../answer/exact-json.ts';
import { SchemasByType } from '../ask/schemas-by-type.ts';
import { anyTyped } from './request-schema.ts';

/** What the model knows it by. */
export const toolSearchName = 'tool_search';

/** One that OpenAI does has another `execution`, and nobody else can do it. */
const byClient = { execution: Type.Literal('client') };
const answered = { ...byClient, call_id: Type.String({ minLength: 1 }) };

export const isToolSearch = Compile(
  Type.Object({
    type: Type.Literal('tool_search'),
    ...byClient,
    description: optional(Type.String()),
    parameters: optional(Type.Object({})),
  }),
);
const searchCall = Type.Object({
  type: Type.Literal('tool_search_call'),
  ...answered,
  arguments: Type.Optional(Type.Unknown()),
});
const searchOutput = Type.Object({
  type: Type.Literal('tool_search_output'),
  ...answered,
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
export const isSearchCall = Compile(searchCall);
export const isSearchOutput = Compile(searchOutput);
const items = new SchemasByType({ tool_search_call: searchCall, tool_search_output: searchOutput });

/** Half a search left out of a conversation would leave the other half alone, which is refused. */
export function checkSearch(item: Static<typeof anyTyped>, place: string): void {
  if ('execution' in item && item.execution === 'client') items.check(item.type ?? '', item, place);
}

/** Of arguments that are no object there is nothing to search by. */
export function searchArguments(json: string): object {
  return fieldsOf(parseArguments(json));
}

/** What the model is told was found; how each is called it reads among its tools. */
export function foundNames(tools: readonly object[]): string {
  const names = tools.map((tool) => fieldsOf(tool).name).filter(isText);
  return names.length > 0 ? `Found: ${names.join(', ')}` : 'Nothing was found.';
}
