/** The three spellings of managed web search: a tool, a plugin, or a suffix of the model's name. */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { SearchWish } from '../../core/ask.ts';
import { misfit } from '../../core/misfit.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import { unknownFields } from './body/unknown-fields.ts';

const domains = optional(Type.Array(Type.String({ maxLength: 300 }), { maxItems: 100 }));

/** OpenAI's place for the allowed ones. */
const filters = { allowed_domains: domains };

const wishFields = {
  /** Without an upper bound, because vendors have none; the operator's holds for searches here. */
  max_uses: optional(Type.Integer({ minimum: 1 })),
  max_results: optional(Type.Integer({ minimum: 1, maximum: 100 })),
  allowed_domains: domains,
  excluded_domains: domains,
  /** Anthropic's word for the excluded ones. */
  blocked_domains: domains,
  filters: optional(Type.Object(filters)),
};

/** `web_search`, and the dated names of vendors' own search tools. */
export const searchToolSchema = Type.Object({
  type: Type.String({ pattern: '^web_search', expected: 'function, custom or web_search' }),
  ...wishFields,
});

const isSearchWish = Compile(searchToolSchema);

const pluginSchema = Type.Object({ id: oneOf('web'), ...wishFields });
type WishFields = Partial<Static<typeof pluginSchema>>;

/** Fields for what the gateway itself adds to a chat; the same in every client's dialect. */
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

interface Spellings {
  readonly model?: string | null;
  readonly models?: readonly string[] | null;
  readonly tools?: readonly { readonly type?: unknown }[] | null;
  readonly plugins?: readonly WishFields[] | null;
}

/** The wish in the first spelling that the request has; null if it wants no search. */
export function readSearchWish({ model, models, tools, plugins }: Spellings): SearchWish | null {
  const tool = tools?.findIndex(isSearchTool) ?? -1;
  if (tool >= 0) {
    const found = tools?.[tool] ?? {};
    const param = `tools[${tool}]`;
    if (!isSearchWish.Check(found)) throw misfit(searchToolSchema, found, param);
    return { ...wishOf(found, param), isVendors: found.type !== 'web_search' };
  }
  const plugin = plugins?.[0];
  if (plugin) return wishOf(plugin, 'plugins[0]');
  const isAnyOnline = (model && isOnline(model)) || models?.some(isOnline);
  return isAnyOnline ? wishOf({}, 'model') : null;
}

function wishOf(fields: WishFields, param: string): SearchWish {
  return {
    param,
    isVendors: false,
    callsMax: fields.max_uses ?? null,
    resultsMax: fields.max_results ?? null,
    allowedDomains: fields.filters?.allowed_domains ?? fields.allowed_domains ?? [],
    allowedName: fields.filters?.allowed_domains ? 'filters.allowed_domains' : 'allowed_domains',
    excludedDomains: fields.excluded_domains ?? fields.blocked_domains ?? [],
    excludedName: fields.excluded_domains ? 'excluded_domains' : 'blocked_domains',
    unmet: unmetIn(fields).map((name) => `${param}.${name}`),
  };
}

/** What a tool or plugin may have besides: its names, and what is true of every search here. */
const heeded = { ...wishFields, type: 0, id: 0, name: 0, cache_control: 0, external_web_access: 0 };

/** Wishes that no engine here is told of, such as `user_location`. */
function unmetIn(fields: WishFields): readonly string[] {
  const filtered = Object.keys(unknownFields(fields.filters ?? {}, filters));
  return [
    ...Object.keys(unknownFields(fields, heeded)),
    ...filtered.map((name) => `filters.${name}`),
  ];
}
