"""Chat templates in the style of those that popular models carry, and conversations to render them with."""

CHATML = '''{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}'''

LLAMA2 = '''{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set system = false %}{% endif %}
{%- for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate user/assistant, not ' ~ message['role']) }}{% endif %}
{%- if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}
{%- if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}'''

LLAMA3 = '''{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{#- The system message comes first, whoever wrote it -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {%- for arg_name, arg_val in tool_call.arguments | items %}
            {{- arg_name + '="' ~ arg_val ~ '"' }}
            {%- if not loop.last %}{{- ", " }}{%- endif %}
        {%- endfor %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}'''

MISTRAL = '''{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool" or message["role"] == "tool_results" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}'''

QWEN = '''{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nThese functions may be called:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nAnswer with {\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}'''

GEMMA = '''{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
'''

PHI = '''{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' ~ message['content'] ~ '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}
'''

DEEPSEEK = '''{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% endif %}
{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<｜User｜>' + message['content'] }}{%- endif %}
    {%- if message['role'] == 'assistant' and message['content'] is none %}
        {%- set ns.is_tool = false -%}
        {%- for tool in message['tool_calls'] %}
            {%- if not ns.is_first %}
                {{- '<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' }}
                {%- set ns.is_first = true -%}
            {%- else %}
                {{- '\\n' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' }}
            {%- endif %}
        {%- endfor %}{{ '<｜tool▁calls▁end｜>' }}
    {%- endif %}
    {%- if message['role'] == 'assistant' and message['content'] is not none %}
        {%- if ns.is_tool %}{{ message['content'] + '<｜end▁of▁sentence｜>' }}{%- set ns.is_tool = false -%}
        {%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{%- endif %}
    {%- endif %}
    {%- if message['role'] == 'tool' %}
        {%- set ns.is_tool = true -%}{{ '<｜tool▁output▁begin｜>' ~ message['content'] ~ '<｜tool▁output▁end｜>' }}
    {%- endif %}
{%- endfor %}{% if add_generation_prompt and not ns.is_tool %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}'''

# Macros that describe a JSON schema, as tool templates of several models have them.
SCHEMA = '''{%- macro type_of(spec, required=[], depth=0) -%}
    {%- if spec.type == 'array' -%}
        {{- type_of(spec['items'], depth=depth + 1) + '[]' -}}
    {%- elif spec.type is iterable and spec.type is not string -%}
        {{- spec.type | join(' | ') -}}
    {%- elif spec.type == 'object' and spec.properties -%}
        {{- '{' -}}
        {%- for name, inner in spec.properties | dictsort -%}
            {{- name ~ ('' if name in (spec.required or []) else '?') ~ ': ' ~ type_of(inner, depth=depth + 1) -}}
            {{- '' if loop.last else ', ' -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- else -%}
        {{- spec.type | default('any', true) -}}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
// {{ tool.function.description | default('') | replace('\\n', '\\n// ') }}
type {{ tool.function.name | title | replace('_', '') }} = (_: {{ type_of(tool.function.parameters) }}) => any;
{% else %}
no tools
{% endfor %}
{%- for message in messages if message.role in ['user', 'assistant'] %}
{{ loop.index }}/{{ loop.length }} {{ loop.previtem.role if loop.previtem is defined else '-' }} > {{ message.role }} > {{ loop.nextitem.role | default('end') }}
    {%- generation %} {{ message.content }}{% endgeneration %}

{% endfor %}'''

CHAT = {'chatml': CHATML, 'llama2': LLAMA2, 'llama3': LLAMA3, 'mistral': MISTRAL, 'qwen': QWEN, 'gemma': GEMMA, 'phi': PHI,
        'deepseek': DEEPSEEK, 'schema': SCHEMA}

TOOLS = [
    {'type': 'function', 'function': {'name': 'get_weather', 'description': 'The weather\nof a place', 'parameters': {
        'type': 'object', 'properties': {'city': {'type': 'string', 'description': 'e.g. "Köln" <b>'}, 'days': {'type': ['integer', 'null']},
                                         'units': {'type': 'array', 'items': {'type': 'string', 'enum': ['°C', '°F']}}}, 'required': ['city']}}},
    {'type': 'function', 'function': {'name': 'now', 'parameters': {'type': 'object', 'properties': {}}, 'strict': True, 'scale': 0.1}}]

SYSTEM = {'role': 'system', 'content': 'Be kind.\n'}
USER = {'role': 'user', 'content': '  Hello, wörld! 👋 '}
ANSWER = {'role': 'assistant', 'content': '<think>\nhm\n</think>\n\nHi there.\n'}
CALL = {'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'abcdefghi', 'type': 'function', 'function': {'name': 'get_weather', 'arguments': {'city': 'Köln', 'days': 3}}}]}
RESULT = {'role': 'tool', 'tool_call_id': 'abcdefghi', 'content': '{"temperature": 21.5}'}
CONVERSATIONS = [
    [USER], [SYSTEM, USER], [SYSTEM, USER, ANSWER], [USER, ANSWER, USER], [SYSTEM, USER, ANSWER, USER, ANSWER, USER],
    [USER, CALL, RESULT], [SYSTEM, USER, CALL, RESULT, ANSWER, USER], [USER, USER], [SYSTEM],
    [USER, {'role': 'assistant', 'content': 'x', 'reasoning_content': 'because'}],
    [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': ' what? '}]}]]
EXTRAS = [{}, {'tools': TOOLS}, {'enable_thinking': False, 'date_string': '1 Jan 2030', 'builtin_tools': ['search', 'code_interpreter']}]


def chats():
    for name, source in CHAT.items():
        for conversation in CONVERSATIONS:
            for extra in EXTRAS:
                for prompt in (True, False):
                    yield name, source, {'messages': conversation, 'tools': None, 'documents': None, 'bos_token': '<s>', 'eos_token': '</s>',
                                         'add_generation_prompt': prompt, **extra}


# A template in each line, ⏎ for its newlines.
SMALL = r'''
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1.5e3 }} {{ 1e20 }} {{ 1e-7 }} {{ 0.1 + 0.2 }} {{ 10 / 5 }}
{{ 'a' ~ 1 ~ none ~ true ~ [1, 'x', "it's", 2.0, {'k': [None]}] }} {{ ('a', 'b') | list }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' in 'abc' }} {{ 'k' in d }} {{ 3 not in [1, 2] }} {{ not true or false and true }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ [1] == [1] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[-2:] }} {{ s[:100] }} {{ l[1:] }} {{ l[::2] }} {{ l[5:1:-1] }} {{ l[99] }} {{ l[0:0] }} {{ 'äöü€😀'[1:4] }} {{ 'äöü€😀' | length }}
{{ undefined_thing }}|{{ undefined_thing is defined }}|{{ undefined_thing | default('x') }}|{{ '' | default('x') }}|{{ '' | default('x', true) }}|{{ none | d('y', boolean=True) }}|{{ d.nothing }}|{{ d['nothing'] is undefined }}
{{ undefined_thing.attr }}
{{ undefined_thing + 1 }}
{{ undefined_thing() }}
{% for x in undefined_thing %}never{% else %}empty{% endfor %}
{{ 'yes' if s else 'no' }} {{ 'yes' if not s }} {{ ('a' if false) is defined }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
{% set ns = namespace(n=0, found=false) %}{% for i in l %}{% set ns.n = ns.n + i %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }} {{ ns.nothing is defined }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}<{{ loop.nextitem }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{{ d.keys() | list }}{{ d.values() | list }}{{ d | items | list }}
{% for i in range(10) if i % 2 %}{{ i }}{% if i > 6 %}{% break %}{% endif %}{% if i == 3 %}{% continue %}{% endif %}.{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% continue %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{{ range(3) | list }} {{ range(2, 5) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }}
{% macro greet(name, greeting='hello', mark="!") %}{{ greeting }}, {{ name }}{{ mark }}{% endmacro %}{{ greet('a') }} {{ greet('b', 'hi') }} {{ greet(name='c', mark='?') }} {{ greet() }}
{% macro fact(n) %}{{ n * (fact(n - 1) | int) if n > 1 else 1 }}{% endmacro %}{{ fact(6) }}
{% macro outer() %}{{ later }}{% endmacro %}{% set later = 'now' %}{{ outer() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% set text %}  block {{ s }}⏎ lines {% endset %}[{{ text }}]{% set shout | upper | trim %} loud {% endset %}[{{ shout }}]
{% filter upper %}filtered {{ s }}{% endfilter %} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% raw %}{{ not rendered }} {% if %}{% endraw %} {# a comment #}x{#- another -#} y⏎  {% raw -%}   kept {{ }}   {%- endraw %}  end
  {% if true %}⏎    indented⏎  {% endif %}⏎	{% if true %}tab{% endif %}   {% if true %}  {% endif %}⏎text {%- if true -%}   tight   {%- endif -%} text
a {%+ if true %}b{% endif %} c⏎   {%+ if true %}kept{% endif +%}⏎next
{{ 'x' -}}   y   {{- 'z' }}
x {{- "\n" -}} y{# comment at the end #}
line{% if true %}⏎{% endif %}line
{{ ' trim ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ s | upper }}|{{ 'HeLLo wörld-foo (bar)' | title }}|{{ 'hELLO wORLD' | capitalize }}|{{ 'ABC' | lower }}
{{ l | first }} {{ l | last }} {{ [] | first }} {{ 'abc' | first }} {{ 'abc' | last }} {{ l | length }} {{ l | count }} {{ d | length }} {{ l | sum }} {{ l | max }} {{ l | min }} {{ l | reverse | list }} {{ 'abc' | reverse }}
{{ ['b', 'A', 'c'] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ms | sort(attribute='role') | map(attribute='role') | list }} {{ d | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }}
{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ [1, 2, 1] | unique | join('-') }} {{ ['a', 'b'] | join }} {{ [1, none, 'x'] | join(', ') }} {{ ms | join('+', attribute='role') }}
{{ ms | selectattr('role', 'equalto', 'user') | list | length }} {{ ms | rejectattr('role', '==', 'user') | map(attribute='content') | list }} {{ ms | selectattr('tool') | list }} {{ ms | selectattr('tool', 'defined') | list }} {{ ms | map(attribute='nothing', default='none') | list }}
{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [[1, 2], [3]] | map('length') | list }} {{ l | select('gt', 1) | list }} {{ l | select('divisibleby', 2) | list }}
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.9' | int }} {{ 3.9 | int }} {{ ' 5 ' | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 1 | float }} {{ true | int }} {{ -3 | abs }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.4 | round(0, 'ceil') }} {{ 'ff' | int(base=16) }}
{{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ 123 | string ~ 4 }} {{ [1, 2] | string }} {{ '<a href="x">&</a>' | escape }} {{ "<'>" | e }} {{ '<b>' | safe }}
{{ 'one\ntwo\n\nthree' | indent }}|{{ 'one\ntwo' | indent(2, true) }}|{{ 'one\n\ntwo' | indent(width=3, blank=true) }}|{{ 'a\nb' | indent('>>') }}|{{ '' | indent }}|{{ 'a\n' | indent }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ 'a"b\\c\n\t\u0001é😀/</' | tojson }} {{ [1, 2.5, true, none, 'x', 1e100] | tojson }} {{ [] | tojson(indent=2) }} {{ {} | tojson }} {{ {'b': 1, 'a': {'d': 1, 'c': []}} | tojson(sort_keys=true) }} {{ {'a': 1, 'b': [1]} | tojson(separators=(',', ':')) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ {'a': [1, {}]} | tojson(indent=1) }}
{{ ' ab '.strip() }}|{{ ' ab '.lstrip() }}|{{ ' ab '.rstrip() }}|{{ 'xxabxx'.strip('x') }}|{{ '\u00a0a\u2003'.strip() }}|{{ 'abc'.startswith('a') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'aXb'.lower() }}|{{ 'straße'.upper() }}|{{ "they're bill's".title() }}|{{ 'ÉCOLE'.capitalize() }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.split(None, 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ '-'.join(['a', 'b']) }} {{ 'a-b'.replace('-', '') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'abc'.replace('', '-') }}
{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ 'äbc'.find('c') }} {{ 'abcabc'.count('bc') }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ''.isdigit() }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}
{{ d.get('k') }} {{ d.get('zzz') }} {{ d.get('zzz', 'fallback') }} {{ d.items is defined }} {{ l.index(2) }} {{ l.count(2) }} {{ d.k }} {{ d['k'] }} {{ l.0 }} {{ ms[0].role }} {{ ms[0]['role'][0] }}
{{ 1 is number }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is number }} {{ true is boolean }} {{ true is integer }} {{ 'a' is string }} {{ d is mapping }} {{ l is sequence }} {{ 's' is iterable }} {{ 1 is iterable }} {{ none is none }} {{ none is not none }} {{ true is true }} {{ 1 is true }} {{ 3 is odd }} {{ 3 is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 'a' is eq('a') }} {{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ range is callable }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 3 is ge 3 }} {{ 3 is lt(2) }} {{ none is sameas none }}
{{ "esc: \\ \" \' \n \t \x41 \u00e9 \U0001F600 \q" }} {{ 'adjacent' 'strings' }} {{ 'it''s' }}
{{ [1, 2,] }} {{ {'a': 1,} }} {{ () }} {{ [] }} {{ {} }} {{ {'a': {'b': {'c': [1]}}}['a'].b['c'][0] }}
{{ dict(a=1, b='x') }} {{ namespace(a=1).a }} {{ (1, 2)[0] }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (c, e) = [3, 4] %}{{ c + e }} {% for (k, v) in [[1, 2], [3, 4]] %}{{ k }}{{ v }}{% endfor %}
{{ raise_exception('my own words') }}
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ 'a' < 1 }}
{{ none + 'a' }}
{{ none.x.y }}
{{ 1 in 'a' }}
{{ l.append(1) }}
{{ x | nosuchfilter }}
{{ d.k.upper() ~ d.k | upper }} {{ -2 ** 2 }} {{ 2 * -3 }} {{ - 3 | abs }} {{ 'a' ~ 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ not 1 == 2 }} {{ 1 + 1 ~ 'x' }}
{% if s == 'nope' %}a{% elif l | length == 3 %}b{% else %}c{% endif %}{% if false %}{% elif false %}{% else %}d{% endif %}
{% for m in ms %}{% if m.role == 'user' %}U{% elif m.role == 'assistant' %}A{% else %}?{% endif %}{% endfor %}
{{ [1, 2, 3][1] }}{{ "a%b" }}{{ '}}' }}{{ '%}' }} { { } } {a} {%if true%}x{%endif%}
{% set d2 = dict(d, extra=1) %}{{ d2.extra }} {{ d2 | length }} {{ d | tojson | length }} {{ ms | tojson | replace('"', "'") }}
{% for c in 'aé' %}[{{ c }}]{% endfor %} {{ 'abc' | list }} {{ d | list }} {% for x in [] %}x{% else %}none{% endfor %}
{{ true and 'x' }} {{ '' or 'y' }} {{ none or false }} {{ 0 and 1 }} {{ True }} {{ None }} {{ false }}
{{ 9223372036854775807 if false else 1_000 }} {{ 1.0 }} {{ 100000000000000000.0 }} {{ 123456.789 }} {{ 1.0e15 }} {{ -0.0 }} {{ 3 * 1.1 }}
{{ [1, 2, 3, 4] | batch(3) | list }} {{ [1, 2, 3, 4] | batch(3, 'x') | list }} {{ [] | batch(2) | list }} {{ [1, 2] | batch(0) | list }} {{ [1, 2, 3, 4] | slice(3) | list }} {{ [1, 2, 3, 4] | slice(3, 0) | list }} {{ [1] | slice(3) | list }} {{ [1] | slice(-1) | list }}
{{ [1] | slice(0) | list }}
{{ [[1], [2, 3]] | sum(start=[]) }} {{ [{'a': [1]}, {'a': []}] | sum('a', [0]) }} {{ 'hello world_1, über-all' | wordcount }} {{ '' | wordcount }} [{{ 'abc' | center(9) }}] [{{ 'abc' | center(8) }}] [{{ 1 | center(4) }}]
{{ 'a b&c/é~ü?' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 12345.678 | filesizeformat }} {{ 123456789 | filesizeformat }} {{ 123456789 | filesizeformat(true) }} {{ 2048 | filesizeformat(binary=true) }} {{ 1e30 | filesizeformat }} {{ 0.5 | filesizeformat }} {{ '<a>' | forceescape }}
{{ 'AbCéÉ1'.swapcase() }} {{ 'x=1=2'.partition('=') }} {{ 'x=1=2'.rpartition('=') }} {{ 'x'.partition('=') }} {{ 'x'.rpartition('=') }} {{ 'a'.zfill(3) }} {{ '-5'.zfill(4) }} {{ '+5'.zfill(1) }} [{{ 'ab'.ljust(4) }}] [{{ 'ab'.rjust(5, 'é') }}] [{{ 'ab'.center(5) }}] [{{ 'abc'.center(6, '*') }}] [{{ 'abc'.center(2) }}]
{{ 'x'.partition('') }}
{{ 'x'.center(5, 'ab') }}
{{ 0x1f }} {{ 0XfF }} {{ 0b11 }} {{ 0o17 }} {{ 0x_1_f }} {{ 0 }} {{ 0x1f + 1 }}
{{ '%s and %r' % ('a', 'b') }} {{ '%d%%' % 5 }} {{ '%x %X %o %#x %#o' % (255, 255, 8, 255, 8) }} [{{ '%5d|%-5d|%05d|%+d|% d' % (1, 2, -3, 4, 5) }}] {{ '%05.2f %.3f %e %g %G %F' % (3.14159, 2, 12345.678, 1e-7, 1e20, 1.5) }}
{{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 7} }} {{ 'plain' % {} }} {{ '%s' % [1, 2] }} {{ '%s' % d }} {{ '%.2s|%6s|%-6s|%06s' % ('hello', 'ab', 'cd', 'ef') }} {{ '%c%c' % ('x', 233) }} {{ '%i %u' % (3.9, -2) }} {{ '%*d|%.*f' % (5, 1, 2, 3.14159) }}
{{ '%s=%s' | format('a', 1) }} {{ '%(k)s' | format(k=2) }} {{ '%5.1f|' | format(2.25) }}
{{ '%s' % (1, 2) }}
{{ '%s %s' % 'a' }}
{{ '%d' % 'a' }}
{{ '%x' % 1.5 }}
{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.cycle(1) }}{% endfor %}
{% set n = namespace(a=1) %}{% set q = [n, {'k': n}] %}{% set n.a = 2 %}{{ q[0].a }}{{ q[1].k.a }}{{ q[1]['k'].a }} {% set n.x = namespace(y=3) %}{{ n.x.y }} {{ q | map(attribute='a') | first }}
{{ none | selectattr('x') | list }} {{ none | map('upper') | list }} {{ none | select | list }} {{ [none, {'x': 1}] | selectattr('x') | list }}
{{ ms | groupby('role') | length }} {% for role, them in ms | groupby('role') %}{{ role }}:{{ them | map(attribute='content') | join }} {% endfor %}{{ [{'a': 'B'}, {'a': 'b'}, {'a': 'A'}] | groupby('a') }} {{ [{'a': 1}, {}] | groupby('a', default=0) }}
'''.strip('\n').split('\n')

VARIABLES = {'s': 'hello', 'l': [1, 2, 3], 'd': {'k': 'v', 'a': [1, None, True], 'z': {'y': 1.5}},
             'ms': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}, {'role': 'user', 'content': 'r', 'tool': 'x'}]}
