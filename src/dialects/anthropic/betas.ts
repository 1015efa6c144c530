import { fieldsOf, itemsOf, type JsonObject } from '../../core/json.ts';
import type { VersionHeaders } from './hosts.ts';

// Betas that fields of a request need. Anthropic rejects such a field without its beta, but clients
// of other APIs can't send the header, and clients of Anthropic's SDK forget it.

const fieldBetas: readonly (readonly [field: string, beta: string])[] = [
  ['compaction', 'compact-2026-09-04'],
  ['output_format', 'structured-outputs-2025-11-13'],
  ['speed', 'fast-mode-2026-02-01'],
  ['fallbacks', 'server-side-fallback-2026-07-01'],
  ['fallback_credit_token', 'fallback-credit-2026-07-01'],
];

const toolBetas: ReadonlyMap<unknown, string> = new Map([
  ['computer_20241022', 'computer-use-2024-10-22'],
  ['bash_20241022', 'computer-use-2024-10-22'],
  ['text_editor_20241022', 'computer-use-2024-10-22'],
  ['computer_20250124', 'computer-use-2025-01-24'],
  ['computer_20251124', 'computer-use-2025-11-24'],
  ['advisor_20260301', 'advisor-tool-2026-03-01'],
  ['mcp_toolset', 'mcp-client-2025-11-20'],
]);

const blockBetas: ReadonlyMap<unknown, string> = new Map([
  ['tool_addition', 'mid-conversation-tool-changes-2026-07-01'],
  ['tool_removal', 'mid-conversation-tool-changes-2026-07-01'],
]);

const filesBeta = 'files-api-2025-04-14';

/**
 * Adds the betas that the fields of this request need. A beta of the client stays, even if it is
 * another version of the same feature.
 */
export function withNeededBetas(version: VersionHeaders, body: JsonObject): VersionHeaders {
  const betas = version.betas === '' ? [] : version.betas.split(',');
  const sent = new Set(betas.map(featureOf));
  const added = [...neededBetas(body)].filter((beta) => !sent.has(featureOf(beta)));
  if (added.length === 0) return version;
  return { ...version, betas: [...betas, ...added].join(',') };
}

/** Returns the name of a beta without its date. */
function featureOf(beta: string): string {
  return beta.replace(/-\d{4}-\d{2}-\d{2}$/, '');
}

function neededBetas(body: JsonObject): ReadonlySet<string> {
  const needed = new Set<string>();
  const add = (beta: string | undefined) => {
    if (beta !== undefined) needed.add(beta);
  };
  for (const [field, beta] of fieldBetas) if ((body[field] ?? null) !== null) add(beta);
  for (const edit of itemsOf(fieldsOf(body.context_management).edits)) {
    const isCompaction = String(fieldsOf(edit).type).startsWith('compact');
    add(isCompaction ? 'compact-2026-01-12' : 'context-management-2025-06-27');
  }
  if ((fieldsOf(body.output_config).task_budget ?? null) !== null) add('task-budgets-2026-03-13');
  const tools = itemsOf(body.tools);
  for (const tool of tools) add(toolBetas.get(fieldsOf(tool).type));
  const hasToolset = tools.some((tool) => fieldsOf(tool).type === 'mcp_toolset');
  if (itemsOf(body.mcp_servers).length > 0 && !hasToolset) add('mcp-client-2025-04-04');
  for (const message of itemsOf(body.messages)) {
    for (const block of itemsOf(fieldsOf(message).content)) {
      const { type, source } = fieldsOf(block);
      add(blockBetas.get(type));
      if (type === 'container_upload' || fieldsOf(source).type === 'file') add(filesBeta);
    }
  }
  return needed;
}
