/**
 * Reads the options of managed web search, which a request enables with a tool, a plugin, or a
 * suffix of the model name.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { SearchOptions } from '../../../core/request-info.ts';
import { oneOf, optional, validationError } from '../../../core/schema.ts';
import { unknownFields } from './unknown-fields.ts';

/**
 * The number of domains isn't limited here, because a vendor's own tool may be forwarded. Managed
 * search checks its limit later.
 */
const domains = optional(Type.Array(Type.String()));

/** OpenAI's format of the domain lists. */
const filters = { allowed_domains: domains, blocked_domains: domains };

const optionFields = {
  /** No maximum here, because vendors have none. The operator's limit applies to managed search. */
  max_uses: optional(Type.Integer({ minimum: 1 })),
  max_results: optional(Type.Integer({ minimum: 1, maximum: 100 })),
  allowed_domains: domains,
  excluded_domains: domains,
  /** Anthropic's name for the excluded domains. */
  blocked_domains: domains,
  filters: optional(Type.Object(filters)),
};

/** `web_search`, and the dated names of vendors' own search tools. */
export const searchToolSchema = Type.Object({
  type: Type.String({ pattern: '^web_search', expected: 'function, custom, or web_search' }),
  ...optionFields,
  /** OpenAI's field: false disables the open web. */
  external_web_access: optional(Type.Boolean()),
});

const searchToolValidator = Compile(searchToolSchema);

const pluginSchema = Type.Object({ id: oneOf('web'), ...optionFields });
type OptionFields = Partial<Static<typeof pluginSchema>>;

/** Fields for the features that the gateway adds to a chat, in every client dialect. */
export const addedFields = {
  plugins: optional(Type.Array(pluginSchema, { maxItems: 10 })),
  skills: optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 100 })),
};

const onlineSuffix = ':online';

function isOnline(alias: string): boolean {
  return alias.endsWith(onlineSuffix) && alias.length > onlineSuffix.length;
}

export function withoutSuffix(alias: string): string {
  return isOnline(alias) ? alias.slice(0, -onlineSuffix.length) : alias;
}

export function isSearchTool(tool: { readonly type?: unknown }): boolean {
  return typeof tool.type === 'string' && tool.type.startsWith('web_search');
}

interface SearchTool {
  readonly type?: unknown;
  readonly external_web_access?: unknown;
}

interface SearchSources {
  readonly model?: string | null;
  readonly models?: readonly string[] | null;
  readonly tools?: readonly SearchTool[] | null;
  readonly plugins?: readonly OptionFields[] | null;
}

/**
 * Returns the options of the search tool, of the first plugin, or of the model suffix, whichever is
 * found first. Returns null if the request doesn't enable search.
 */
export function readSearchOptions({
  model,
  models,
  tools,
  plugins,
}: SearchSources): SearchOptions | null {
  const isOpen = (tool: SearchTool) => isSearchTool(tool) && tool.external_web_access !== false;
  const tool = tools?.findIndex(isOpen) ?? -1;
  if (tool >= 0) {
    const found = tools?.[tool] ?? {};
    const param = `tools[${tool}]`;
    if (!searchToolValidator.Check(found)) throw validationError(searchToolSchema, found, param);
    return { ...toSearchOptions(found, param), isProviderTool: found.type !== 'web_search' };
  }
  const plugin = plugins?.[0];
  if (plugin) return toSearchOptions(plugin, 'plugins[0]');
  const isAnyOnline = (model && isOnline(model)) || models?.some(isOnline);
  return isAnyOnline ? toSearchOptions({}, 'model') : null;
}

function toSearchOptions(fields: OptionFields, param: string): SearchOptions {
  const allowed = firstFilled({
    'filters.allowed_domains': fields.filters?.allowed_domains,
    allowed_domains: fields.allowed_domains,
  });
  const excluded = firstFilled({
    'filters.blocked_domains': fields.filters?.blocked_domains,
    excluded_domains: fields.excluded_domains,
    blocked_domains: fields.blocked_domains,
  });
  const unsupported = [...unsupportedIn(fields), ...allowed.others, ...excluded.others];
  return {
    param,
    isProviderTool: false,
    callsMax: fields.max_uses ?? null,
    resultsMax: fields.max_results ?? null,
    allowedDomains: allowed.domains,
    allowedName: allowed.name,
    excludedDomains: excluded.domains,
    excludedName: excluded.name,
    unsupported: unsupported.map((name) => `${param}.${name}`),
  };
}

/** Returns the first nonempty list, and the names of the others, which a search ignores. */
function firstFilled(lists: Readonly<Record<string, readonly string[] | null | undefined>>) {
  const filled = Object.entries(lists).filter(([, domains]) => domains?.length);
  const [[name, domains] = ['', []], ...others] = filled;
  return { name, domains: domains ?? [], others: others.map(([other]) => other) };
}

/**
 * All supported fields of a tool or plugin. The fields with the value 0 identify the tool or need
 * no validation.
 */
const supportedFields = {
  ...optionFields,
  type: 0,
  id: 0,
  name: 0,
  cache_control: 0,
  external_web_access: 0,
};

/** Returns the options that no managed search supports, such as `user_location`. */
function unsupportedIn(fields: OptionFields): readonly string[] {
  const filtered = Object.keys(unknownFields(fields.filters ?? {}, filters));
  return [
    ...Object.keys(unknownFields(fields, supportedFields)),
    ...filtered.map((name) => `filters.${name}`),
  ];
}
