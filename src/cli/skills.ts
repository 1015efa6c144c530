import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import { readSkillFile } from '../tools/skills/built-in.ts';
import type { Command, Topic } from './command.ts';
import { servicesForTenant, tenantOption } from './command.ts';
import { counted, fields, minute, printJson, table } from './output.ts';

const operand = '<name>';

const list: Command = {
  name: 'list',
  summary: 'List the skills that requests of a tenant may name',
  options: tenantOption,
  async run(context) {
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.list(tenantId);
    if (context.args.has('json')) return printJson(context, { data });
    const rows = data.map((skill) => [
      skill.name,
      skill.source,
      minute(skill.updated_at),
      skill.description,
    ]);
    context.out(table(['NAME', 'SOURCE', 'UPDATED (UTC)', 'DESCRIPTION'], rows));
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show one skill with its instructions',
  operand,
  options: tenantOption,
  async run(context) {
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.show(tenantId, context.args.operand);
    if (context.args.has('json')) return printJson(context, { data });
    const { instructions, ...rest } = data;
    context.out(`${fields({ ...rest })}\n\n${instructions}`);
  },
};

const put: Command = {
  name: 'put',
  summary: 'Save a skill of a tenant from a Markdown file on standard input',
  operand,
  options: {
    ...tenantOption,
    description: {
      value: '<text>',
      summary: 'One line about it (default: the description in the front matter of the file)',
    },
  },
  async run(context) {
    const { args } = context;
    const file = readSkillFile(await context.input({ text: `The skill ${args.operand}` }));
    if (file.name !== undefined && file.name !== args.operand) {
      const message = `The file calls the skill "${file.name}", not "${args.operand}".`;
      throw invalidRequest(message, 'name');
    }
    const description = args.text('description') ?? file.description;
    const body = definedFields({ description, instructions: file.instructions });
    const { services, tenantId } = await servicesForTenant(context);
    const data = await services.skills.put(tenantId, args.operand, body);
    if (args.has('json')) return printJson(context, { data });
    const length = counted(data.instructions.length, 'character');
    context.out(`The skill ${data.name} is saved (${length}).`);
  },
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete a skill of a tenant; a built-in one of its name is back then',
  operand,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    const { services, tenantId } = await servicesForTenant(context);
    await services.skills.delete(tenantId, args.operand);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`The skill ${args.operand} was deleted.`);
  },
};

export const skills: Topic = {
  name: 'skills',
  summary: "Manage tenants' skills: named instructions that requests can ask for",
  commands: [list, show, put, remove],
  examples: [
    'tollgate skills list --tenant acme',
    'tollgate skills put house-style --tenant acme < house-style.md',
    'tollgate skills show translate',
  ],
};
