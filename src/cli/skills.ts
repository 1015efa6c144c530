import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import { readSkillFile } from '../tools/skills/built-in.ts';
import type { Command, Topic } from './command.ts';
import { servicesForTenant, tenantOption } from './command.ts';
import { fields, formatCount, formatMinute, printJson, table } from './output.ts';

const positional = '<name>';

const list: Command = {
  name: 'list',
  summary: 'List the skills that a tenant can use',
  options: tenantOption,
  async run(context) {
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.list(tenantId);
    if (context.args.has('json')) return printJson(context, { data });
    const rows = data.map((skill) => [
      skill.name,
      skill.source,
      formatMinute(skill.updated_at),
      skill.description,
    ]);
    context.out(table(['NAME', 'SOURCE', 'UPDATED (UTC)', 'DESCRIPTION'], rows));
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show a skill with its instructions',
  positional,
  options: tenantOption,
  async run(context) {
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.show(tenantId, context.args.positional);
    if (context.args.has('json')) return printJson(context, { data });
    const { instructions, ...rest } = data;
    context.out(`${fields({ ...rest })}\n\n${instructions}`);
  },
};

const put: Command = {
  name: 'put',
  summary: "Save a tenant's skill from a Markdown file on stdin",
  positional,
  options: {
    ...tenantOption,
    description: {
      value: '<text>',
      summary: "One-line description (default: the one in the file's front matter)",
    },
  },
  async run(context) {
    const { args } = context;
    const file = readSkillFile(
      await context.input({ text: `Markdown file of the skill ${args.positional}` }),
    );
    if (file.name !== undefined && file.name !== args.positional) {
      const message =
        `The file names the skill "${file.name}", but the command names "${args.positional}". ` +
        'Use the same name.';
      throw invalidRequest(message, 'name');
    }
    const description = args.text('description') ?? file.description;
    const body = definedFields({ description, instructions: file.instructions });
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.put(tenantId, args.positional, body);
    if (args.has('json')) return printJson(context, { data });
    const length = formatCount(data.instructions.length, 'character');
    context.out(`The skill ${data.name} was saved (${length}).`);
  },
};

const remove: Command = {
  name: 'delete',
  summary: "Delete a tenant's skill; a built-in skill of the same name applies again",
  positional,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    const { services, tenantId } = await servicesForTenant(context);
    await services.skills.delete(tenantId, args.positional);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`The skill ${args.positional} was deleted.`);
  },
};

export const skills: Topic = {
  name: 'skills',
  summary: "Manage tenants' skills: named instructions that requests can use",
  commands: [list, show, put, remove],
  examples: [
    'tollgate skills list --tenant acme',
    'tollgate skills put house-style --tenant acme < house-style.md',
    'tollgate skills show translate',
  ],
};
