import {useState} from 'preact/hooks';
import {hasKey} from '../lib/api';
import {snippets, type Request} from '../lib/snippets';
import {Copy, Tabs} from './common';

export function Snippets({request}: {request: Request}) {
  const all = snippets(request, hasKey());
  const [chosen, choose] = useState('curl');
  const text = (all.find(([name]) => name === chosen) ?? all[0])[1];
  return (
    <details class="snippets" open>
      <summary>The same request elsewhere</summary>
      <Tabs label="Languages" tabs={all.map(([name]) => [name, name])} chosen={all.some(([name]) => name === chosen) ? chosen : 'curl'} choose={choose} />
      <div class="copyable"><Copy text={text} /><pre tabIndex={0} data-snippet={chosen}>{text}</pre></div>
      {!request.grpc && <p class="note">This protocol has no gRPC form; <code>weir routes</code> lists those that do.</p>}
    </details>
  );
}
